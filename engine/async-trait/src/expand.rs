//! Traits and implementations, with their async methods rewritten.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::visit_mut::VisitMut;
use syn::{
    Block, FnArg, GenericParam, ImplItem, Item, Pat, Receiver, ReceiverKind, Result, ReturnType, Signature, TraitItem,
    Type, WherePredicate, parse_quote, parse_quote_spanned, parse2,
};

use crate::lifetimes::{Lifetimes, OfFuture, of_future};

/// Expands the attribute on a trait or an implementation.
pub(crate) fn expand(input: TokenStream, is_send: bool) -> Result<TokenStream> {
    match parse2(input)? {
        Item::Trait(mut item) => {
            for member in &mut item.items {
                if let TraitItem::Fn(method) = member
                    && method.sig.asyncness.is_some()
                {
                    if let Some(body) = &mut method.default {
                        // In a trait, `Self` is any type: a future that holds it is `Send` only if the clause says so.
                        let clause = if is_send {
                            default_body_clause(&method.sig)
                        } else {
                            None
                        };
                        method.sig.generics.make_where_clause().predicates.extend(clause);
                        let (result, arguments) = rewrite_signature(&mut method.sig, is_send);
                        *body = rewrite_body(body, &result, arguments);
                        method.attrs.push(allowed_lints());
                    } else {
                        rewrite_signature(&mut method.sig, is_send);
                    }
                    method.attrs.push(parse_quote!(#[must_use]));
                }
            }
            Ok(quote!(#item))
        }
        Item::Impl(mut item) => {
            for member in &mut item.items {
                if let ImplItem::Fn(method) = member
                    && method.sig.asyncness.is_some()
                {
                    let (result, arguments) = rewrite_signature(&mut method.sig, is_send);
                    method.block = rewrite_body(&method.block, &result, arguments);
                    method.attrs.push(allowed_lints());
                }
            }
            Ok(quote!(#item))
        }
        other => Err(syn::Error::new_spanned(
            other,
            "expected a trait or an implementation of one",
        )),
    }
}

/// Lints of the written-out form that the author of the method did not write.
fn allowed_lints() -> syn::Attribute {
    parse_quote!(#[allow(
        unreachable_code,
        unused_qualifications,
        clippy::async_yields_async,
        clippy::diverging_sub_expression,
        clippy::let_unit_value,
        clippy::manual_async_fn,
        clippy::needless_lifetimes,
        clippy::no_effect_underscore_binding,
        clippy::shadow_same,
        clippy::type_complexity,
        clippy::used_underscore_binding
    )])
}

/// What the future's `Send` needs of `Self`: `&self` is `Send` if `Self` is `Sync`.
fn default_body_clause(signature: &Signature) -> Option<WherePredicate> {
    Some(match &signature.receiver()?.kind {
        ReceiverKind::Reference(_, _, None) => parse_quote!(Self: ::core::marker::Sync),
        ReceiverKind::Typed(..) => parse_quote!(Self: ::core::marker::Send + ::core::marker::Sync),
        _ => parse_quote!(Self: ::core::marker::Send),
    })
}

/// Makes an async signature one that returns a boxed future. Returns the future's result, and the statements that move
/// the arguments into the future.
fn rewrite_signature(signature: &mut Signature, is_send: bool) -> (Type, TokenStream) {
    let span = signature
        .asyncness
        .take()
        .map_or_else(Span::call_site, |word| word.span);
    let future = of_future(span);
    let mut lifetimes = Lifetimes::default();
    let mut moved = TokenStream::new();
    for (number, argument) in signature.inputs.iter_mut().enumerate() {
        match argument {
            FnArg::Receiver(receiver) => moved.extend(name_receiver(receiver, &mut lifetimes)),
            FnArg::Typed(argument) => {
                lifetimes.visit_type_mut(&mut argument.ty);
                let pattern = &argument.pat;
                moved.extend(match &**pattern {
                    // The name stays, so that documentation shows it.
                    Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                        let ident = &name.ident;
                        let statement = quote!(let #pattern = #ident;);
                        *argument.pat = parse_quote!(#ident);
                        statement
                    }
                    _ => {
                        let name = format_ident!("__argument{number}");
                        // Twice, since `let _ = name` moves nothing.
                        let statement = quote!(let #name = #name; let #pattern = #name;);
                        *argument.pat = parse_quote!(#name);
                        statement
                    }
                });
            }
        }
    }
    let mut result = match &signature.output {
        ReturnType::Default => parse_quote_spanned!(span=> ()),
        ReturnType::Type(_, result) => (**result).clone(),
    };
    OfFuture.visit_type_mut(&mut result);
    let bound = if is_send {
        quote_spanned!(span=> + ::core::marker::Send)
    } else {
        TokenStream::new()
    };
    signature.output = parse_quote_spanned! {span=>
        -> ::core::pin::Pin<Box<dyn ::core::future::Future<Output = #result> #bound + #future>>
    };
    add_generics(signature, lifetimes, span);
    (result, moved)
}

/// Names the receiver's lifetimes. Returns a statement that moves it into the future if it is owned.
fn name_receiver(receiver: &mut Receiver, lifetimes: &mut Lifetimes) -> Option<TokenStream> {
    match &mut receiver.kind {
        ReceiverKind::Reference(_, Some(lifetime), _) => lifetimes.visit_lifetime_mut(lifetime),
        ReceiverKind::Reference(and, lifetime, _) => *lifetime = Some(of_future(and.span)),
        ReceiverKind::Typed(_, kind) => lifetimes.visit_type_mut(kind),
        _ => {}
    }
    (!is_reference(receiver)).then(|| quote!(let _ = &self;))
}

fn is_reference(receiver: &Receiver) -> bool {
    matches!(receiver.kind, ReceiverKind::Reference(..))
}

/// Adds the future's lifetime, and says what outlives it where the signature does not imply that.
fn add_generics(signature: &mut Signature, lifetimes: Lifetimes, span: Span) {
    let future = of_future(span);
    let mut clauses = Vec::<WherePredicate>::new();
    for parameter in &mut signature.generics.params {
        match parameter {
            GenericParam::Type(parameter) => {
                let ident = &parameter.ident;
                clauses.push(parse_quote!(#ident: #future));
            }
            GenericParam::Lifetime(parameter) => {
                let lifetime = &parameter.lifetime;
                clauses.push(parse_quote!(#lifetime: #future));
            }
            GenericParam::Const(_) => {}
        }
    }
    for lifetime in &lifetimes.fresh {
        clauses.push(parse_quote!(#lifetime: #future));
    }
    for lifetime in lifetimes.named.iter().filter(|lifetime| **lifetime != future) {
        clauses.push(parse_quote!(#lifetime: #future));
    }
    // A reference to `Self` implies this.
    if signature.receiver().is_some_and(|receiver| !is_reference(receiver)) {
        clauses.push(parse_quote!(Self: #future));
    }
    let first = signature
        .generics
        .params
        .iter()
        .take_while(|one| matches!(one, GenericParam::Lifetime(_)))
        .count();
    signature.generics.params.insert(first, parse_quote!(#future));
    for (number, lifetime) in lifetimes.fresh.into_iter().enumerate() {
        signature
            .generics
            .params
            .insert(first + number, parse_quote!(#lifetime));
    }
    if !clauses.is_empty() {
        signature.generics.make_where_clause().predicates.extend(clauses);
    }
}

/// The body as a future. The type of its result is stated twice: for the last expression, and for `return`.
fn rewrite_body(body: &Block, result: &Type, moved: TokenStream) -> Block {
    let statements = &body.stmts;
    parse_quote!({
        Box::pin(async move {
            if false {
                let __result: #result = loop {};
                return __result;
            }
            #moved
            let __result: #result = { #(#statements)* };
            __result
        })
    })
}
