//! Files whose metadata is edited, for features that no writer at hand produces.

use grampus_orc_layout::proto::{Footer, Metadata, PostScript, StripeFooter};
use prost::Message;

/// The metadata of an uncompressed file of at most one stripe.
#[derive(Debug)]
pub(crate) struct FileMetadata {
    pub(crate) footer: Footer,
    pub(crate) metadata: Metadata,
    pub(crate) stripe_footer: StripeFooter,
}

/// `file`, which is uncompressed and has at most one stripe, with edited metadata.
pub(crate) fn edited(file: &[u8], edit: impl FnOnce(&mut FileMetadata)) -> Vec<u8> {
    let (&length, before) = file.split_last().unwrap();
    let (before, postscript) = before.split_at(before.len() - usize::from(length));
    let mut postscript = PostScript::decode(postscript).unwrap();
    assert_eq!(postscript.compression.unwrap_or(0), 0, "the file is compressed");
    let (before, footer) = before.split_at(before.len() - postscript.footer_length() as usize);
    let (before, metadata) = before.split_at(before.len() - postscript.metadata_length() as usize);
    let footer = Footer::decode(footer).unwrap();
    assert!(
        footer.stripes.len() <= 1,
        "the file has {} stripes",
        footer.stripes.len()
    );
    let stripe_footer = footer.stripes.first().map_or(0, |stripe| stripe.footer_length());
    let (content, stripe_footer) = before.split_at(before.len() - stripe_footer as usize);
    let mut parts = FileMetadata {
        footer,
        metadata: Metadata::decode(metadata).unwrap(),
        stripe_footer: StripeFooter::decode(stripe_footer).unwrap(),
    };
    edit(&mut parts);
    let stripe_footer = parts.stripe_footer.encode_to_vec();
    if let Some(stripe) = parts.footer.stripes.first_mut() {
        stripe.footer_length = Some(stripe_footer.len() as u64);
    }
    let (footer, metadata) = (parts.footer.encode_to_vec(), parts.metadata.encode_to_vec());
    postscript.footer_length = Some(footer.len() as u64);
    postscript.metadata_length = Some(metadata.len() as u64);
    let postscript = postscript.encode_to_vec();
    let length = [postscript.len() as u8];
    [content, &stripe_footer, &metadata, &footer, &postscript, &length].concat()
}
