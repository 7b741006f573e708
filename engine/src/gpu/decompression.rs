//! [`ChunkDecompression`]: the codecs that the GPU decompresses for a scan, and nvCOMP if it is needed for them.

use std::path::Path;
use std::sync::Arc;

use grampus_cuda::{CudaError, Nvcomp};
use grampus_gpu_exec::Decompression;
use grampus_orc_layout::codec::Codec;

use super::refusal::Refusal;
use crate::config::{GpuDecompress, GpuTarget, GrampusOptions};
use crate::scan::Scan;

/// How the chunks of a scan's files are decompressed.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChunkDecompression {
    setting: GpuDecompress,
    /// Loaded if a file has a codec for it.
    library: Option<Arc<Nvcomp>>,
    /// A file has a codec for the library, which cannot be loaded.
    lacks_library: bool,
}

impl ChunkDecompression {
    /// The decompression of the files of `scan`, as the settings ask.
    ///
    /// # Errors
    /// nvCOMP is asked for and cannot be loaded.
    pub(crate) fn of(options: &GrampusOptions, scan: &Scan) -> Result<Self, Refusal> {
        let setting = options.gpu_decompress;
        let mut decompression = Self {
            setting,
            ..Self::default()
        };
        let codecs = scan.files.iter().filter_map(|file| file.file.tail.compression);
        if codecs
            .map(|compression| compression.codec)
            .any(|codec| is_for_library(setting, codec))
        {
            match load(options) {
                Ok(library) => decompression.library = Some(library),
                Err(error) if setting == GpuDecompress::Nvcomp => return Err(Refusal::NoNvcomp(error)),
                Err(error) => {
                    log::debug!("the CPU decompresses zlib and Zstandard: {error}");
                    decompression.lacks_library = true;
                }
            }
        }
        Ok(decompression)
    }

    /// Whether `other` decompresses the same chunks in the same way.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let libraries = [self, other].map(|of| of.library.as_ref().map(Arc::as_ptr));
        (self.setting, self.lacks_library, libraries[0]) == (other.setting, other.lacks_library, libraries[1])
    }

    /// Whether the GPU decompresses chunks of this codec.
    pub(crate) fn takes(&self, codec: Codec) -> bool {
        match self.setting {
            GpuDecompress::Off => false,
            setting if is_for_library(setting, codec) => self.library.is_some(),
            _ => matches!(codec, Codec::Snappy | Codec::Lz4),
        }
    }

    /// The decompression of a request to the device.
    pub(crate) fn request(&self) -> Decompression<'_> {
        Decompression {
            library: self.library.as_deref(),
            prefers_library: self.setting == GpuDecompress::Nvcomp,
        }
    }

    /// The words for EXPLAIN: nvCOMP, or its absence if a file has a codec for it.
    pub(crate) fn words(&self) -> Option<String> {
        match &self.library {
            Some(library) => Some(format!("nvCOMP {}", library.version_text())),
            None => {
                (self.lacks_library).then(|| "CPU, because nvCOMP cannot be loaded (see grampus device)".to_owned())
            }
        }
    }
}

/// Whether nvCOMP decompresses a codec.
fn is_for_library(setting: GpuDecompress, codec: Codec) -> bool {
    match (setting, codec) {
        (GpuDecompress::Own | GpuDecompress::Off, _) | (_, Codec::Lzo) => false,
        (GpuDecompress::Nvcomp, _) | (GpuDecompress::Auto, Codec::Zlib | Codec::Zstd) => true,
        (GpuDecompress::Auto, _) => false,
    }
}

fn load(options: &GrampusOptions) -> Result<Arc<Nvcomp>, CudaError> {
    let file = Some(options.nvcomp_library.as_str()).filter(|file| !file.is_empty());
    let library = Nvcomp::load(file.map(Path::new))?;
    if library.is_on_host() != (options.device_settings().target == GpuTarget::Host) {
        let file = library.file().display();
        return Err(CudaError::NoNvcomp(format!("{file} is not for this device")));
    }
    Ok(library)
}
