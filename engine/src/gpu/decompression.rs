//! [`ChunkDecompression`]: the codecs that the GPU decompresses for a scan, and nvCOMP if it is needed for them.

use std::path::Path;
use std::sync::Arc;

use grampus_cuda::{CudaError, Nvcomp};
use grampus_gpu_exec::Decompression;
use grampus_gpu_exec::decompress::ChunkKernel;
use grampus_orc_layout::codec::Codec;

use super::refusal::Refusal;
use crate::config::{GpuDecompress, GpuTarget, GrampusOptions};
use crate::scan::Scan;

/// How the chunks of a scan's files are decompressed.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChunkDecompression {
    setting: GpuDecompress,
    /// Loaded if the setting asks for it, and a file has chunks for it.
    library: Option<Arc<Nvcomp>>,
}

impl ChunkDecompression {
    /// The decompression of the files of `scan`, as the settings ask.
    ///
    /// # Errors
    /// nvCOMP is asked for and cannot be loaded.
    pub(crate) fn of(options: &GrampusOptions, scan: &Scan) -> Result<Self, Refusal> {
        let setting = options.gpu_decompress;
        let mut codecs = scan.files.iter().filter_map(|file| file.file.tail.compression);
        let is_for_library = setting == GpuDecompress::Nvcomp && codecs.any(|of| ChunkKernel::of(of.codec).is_some());
        let library = match is_for_library {
            true => Some(load(options).map_err(Refusal::NoNvcomp)?),
            false => None,
        };
        Ok(Self { setting, library })
    }

    /// Whether `other` decompresses the same chunks in the same way.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let libraries = [self, other].map(|of| of.library.as_ref().map(Arc::as_ptr));
        (self.setting, libraries[0]) == (other.setting, libraries[1])
    }

    /// Whether the GPU decompresses chunks of this codec.
    pub(crate) fn takes(&self, codec: Codec) -> bool {
        self.setting != GpuDecompress::Off && ChunkKernel::of(codec).is_some()
    }

    /// The decompression of a request to the device.
    pub(crate) fn request(&self) -> Decompression<'_> {
        Decompression {
            library: self.library.as_deref(),
        }
    }

    /// The words for EXPLAIN, if nvCOMP decompresses.
    pub(crate) fn words(&self) -> Option<String> {
        let library = self.library.as_ref()?;
        Some(format!("nvCOMP {}", library.version_text()))
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
