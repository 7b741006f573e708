//! Lifetimes of a signature: elided ones get names.

use proc_macro2::Span;
use syn::visit_mut::{self, VisitMut};
use syn::{GenericArgument, Lifetime, ParenthesizedGenericArguments, TraitBound, TypeFnPtr, TypeReference};

/// The lifetime of the future.
pub(crate) fn of_future(span: Span) -> Lifetime {
    Lifetime::new("'async_trait", span)
}

/// Names the elided lifetimes of types. Those of references at the top are the future's; those inside of other types,
/// which need not be covariant, get names of their own.
#[derive(Default)]
pub(crate) struct Lifetimes {
    /// Names that were given.
    pub(crate) fresh: Vec<Lifetime>,
    /// Names that the signature has itself.
    pub(crate) named: Vec<Lifetime>,
    depth: usize,
}

impl Lifetimes {
    fn name(&mut self, span: Span) -> Lifetime {
        if self.depth == 0 {
            return of_future(span);
        }
        let fresh = Lifetime::new(&format!("'elided{}", self.fresh.len()), span);
        self.fresh.push(fresh.clone());
        fresh
    }
}

impl VisitMut for Lifetimes {
    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        match &mut reference.lifetime {
            Some(lifetime) => self.visit_lifetime_mut(lifetime),
            none => *none = Some(self.name(reference.and_token.span)),
        }
        // `&mut &T` is not covariant in the inner lifetime.
        let depth = usize::from(reference.mutability.is_some());
        self.depth += depth;
        self.visit_type_mut(&mut reference.elem);
        self.depth -= depth;
    }

    fn visit_generic_argument_mut(&mut self, argument: &mut GenericArgument) {
        self.depth += 1;
        visit_mut::visit_generic_argument_mut(self, argument);
        self.depth -= 1;
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = self.name(lifetime.span());
        } else if lifetime.ident != "static" && !self.named.contains(lifetime) {
            self.named.push(lifetime.clone());
        }
    }

    // Lifetimes in types of functions are theirs.
    fn visit_type_fn_ptr_mut(&mut self, _: &mut TypeFnPtr) {}

    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut ParenthesizedGenericArguments) {}

    fn visit_trait_bound_mut(&mut self, bound: &mut TraitBound) {
        if bound.lifetimes.is_none() {
            visit_mut::visit_trait_bound_mut(self, bound);
        }
    }
}

/// Gives every elided lifetime the future's: those of results.
pub(crate) struct OfFuture;

impl VisitMut for OfFuture {
    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        if reference.lifetime.is_none() {
            reference.lifetime = Some(of_future(reference.and_token.span));
        }
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = of_future(lifetime.span());
        }
    }

    fn visit_type_fn_ptr_mut(&mut self, _: &mut TypeFnPtr) {}

    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut ParenthesizedGenericArguments) {}
}
