//! Object stores by URL: S3, GCS, Azure, HTTP, NVMe namespaces.
//!
//! ```text
//! store_kind      StoreKind: schemes, options, and the builders of object_store
//! request_error   a failed request as a StoreError, with advice
//! named_store     NamedStore: a store whose errors name the user's URL
//! nvme_location   nvme:// URLs
//! nvme_namespace  NvmeLocation: controller and namespace of such a URL
//! nvme_store      NvmeStore: the files of an NVMe namespace; `without_nvme` without the feature `gpu`
//! store_location  a location as a listing URL; the stores that OPTIONS configure
//! secrets         Secrets: what stands for the passwords and keys of statements
//! lazy_stores     LazyStores: the registry that makes stores when a statement first names them
//! ```

pub(crate) mod lazy_stores;
mod named_store;
pub(crate) mod nvme_location;
#[cfg(feature = "gpu")]
mod nvme_namespace;
#[cfg(feature = "gpu")]
pub(crate) mod nvme_store;
#[cfg(not(feature = "gpu"))]
#[path = "without_nvme.rs"]
pub(crate) mod nvme_store;
mod request_error;
pub(crate) mod secrets;
pub(crate) mod store_kind;
pub(crate) mod store_location;
