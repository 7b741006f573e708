//! `#[async_trait]`: async methods of traits as methods that return boxed futures.
//!
//! The crate `async-trait` gives each elided lifetime a parameter of its own, and says in a where clause that it
//! outlives the future. A method with where clauses has a non-empty parameter environment. In one, rustc proves anew
//! for each method that the future is `Send`, and walks the graph of `Expr` and `LogicalPlan` each time: in six crates
//! of DataFusion 55 that takes most of the time. In an empty environment rustc caches the proofs
//! (apache/datafusion#24325).
//!
//! This macro gives the elided lifetimes outside of other types the future's own lifetime, `'async_trait`. References
//! are covariant, so callers see no difference. DataFusion 56 writes its methods so that either macro compiles
//! quickly; then this crate can go.

mod expand;
mod lifetimes;

use proc_macro::TokenStream;

/// Turns the async methods of a trait or an implementation into methods that return
/// `Pin<Box<dyn Future<Output = T> + Send>>`; with `(?Send)`, the future need not be `Send`.
#[proc_macro_attribute]
pub fn async_trait(arguments: TokenStream, input: TokenStream) -> TokenStream {
    let is_send = match arguments.to_string().replace(' ', "").as_str() {
        "" => true,
        "?Send" => false,
        _ => {
            let error = syn::Error::new(proc_macro2::Span::call_site(), "expected nothing or `?Send`");
            return error.to_compile_error().into();
        }
    };
    expand::expand(input.into(), is_send)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
