//! Traits and implementations as the crates of the tree write them.

// The macro says that type parameters outlive the future.
#![allow(clippy::multiple_bound_locations)]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;

/// The result of a future that never waits for anything but itself.
fn result_of<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
    }
}

fn assert_send<T: Send>(value: T) -> T {
    value
}

struct Names<'a>(Vec<&'a str>);

#[async_trait]
trait Lookup: Send + Sync {
    async fn first(&self) -> &str;
    async fn longest(&self, others: &[&str], least: usize) -> Option<String>;
    async fn take_first(&mut self, mut dropped: Vec<String>) -> Result<String, String>;
    async fn joined<S: AsRef<str> + Send + Sync>(&self, separator: S, (left, right): (usize, usize)) -> String;
    async fn of_names(&self, names: Names<'_>) -> usize;
    async fn shared(self: Arc<Self>, _: usize) -> usize;
    async fn owned(self: Box<Self>) -> usize;

    /// A body of the trait, where `Self` is any type.
    async fn is_first(&self, name: &str) -> bool {
        self.first().await == name
    }

    fn count(&self) -> usize;
}

#[async_trait]
impl Lookup for Names<'_> {
    async fn first(&self) -> &str {
        self.0[0]
    }

    async fn longest(&self, others: &[&str], least: usize) -> Option<String> {
        let mut all = self
            .0
            .iter()
            .chain(others)
            .map(|name| name.to_string())
            .collect::<Vec<_>>();
        all.sort_by_key(|name| name.len());
        let longest = all.pop()?;
        if longest.len() < least {
            return None;
        }
        Some(longest)
    }

    async fn take_first(&mut self, mut dropped: Vec<String>) -> Result<String, String> {
        if self.0.is_empty() {
            Err("no name")?;
        }
        let first = self.0.remove(0).to_string();
        dropped.push(first);
        Ok(dropped.concat())
    }

    async fn joined<S: AsRef<str> + Send + Sync>(&self, separator: S, (left, right): (usize, usize)) -> String {
        self.0[left..right].join(separator.as_ref())
    }

    async fn of_names(&self, names: Names<'_>) -> usize {
        self.count() + names.count()
    }

    async fn shared(self: Arc<Self>, _: usize) -> usize {
        self.count()
    }

    async fn owned(self: Box<Self>) -> usize {
        self.count()
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

fn names() -> Names<'static> {
    Names(vec!["Queens", "Bronx", "Manhattan"])
}

#[test]
fn methods_borrow_from_self_and_arguments() {
    let names = names();
    assert_eq!(result_of(assert_send(names.first())), "Queens");
    let other = String::from("Staten Island");
    assert_eq!(
        result_of(assert_send(names.longest(&[&other], 5))).as_deref(),
        Some("Staten Island")
    );
    assert_eq!(result_of(names.longest(&[], 50)), None);
    assert!(result_of(assert_send(names.is_first("Queens"))));
    let local = String::from("local");
    assert_eq!(result_of(names.of_names(Names(vec![&local]))), 4);
}

#[test]
fn methods_take_patterns_generics_and_owned_receivers() {
    let mut names = names();
    assert_eq!(
        result_of(assert_send(names.joined(String::from("+"), (1, 3)))),
        "Bronx+Manhattan"
    );
    assert_eq!(
        result_of(assert_send(names.take_first(vec!["from ".into()]))),
        Ok("from Queens".into())
    );
    assert_eq!(result_of(assert_send(Arc::new(Names(vec!["a"])).shared(1))), 1);
    assert_eq!(result_of(Box::new(Names(vec!["a", "b"])).owned()), 2);
    assert_eq!(
        result_of(Names(Vec::new()).take_first(Vec::new())),
        Err("no name".into())
    );
}

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

#[async_trait(?Send)]
trait Local {
    async fn holds(&self, guard: Guard, _: Guard) -> usize;
}

struct Here;

#[async_trait(?Send)]
impl Local for Here {
    async fn holds(&self, _guard: Guard, _: Guard) -> usize {
        // Not `Send`, as the attribute allows.
        let here = std::rc::Rc::new(DROPPED.load(Ordering::Relaxed));
        std::future::ready(()).await;
        *here
    }
}

/// An argument lives as long as in an `async fn`: until the future has run, or is dropped before.
#[test]
fn arguments_live_as_long_as_the_future() {
    let future = Here.holds(Guard, Guard);
    assert_eq!(DROPPED.load(Ordering::Relaxed), 0);
    assert_eq!(result_of(future), 0);
    assert_eq!(DROPPED.load(Ordering::Relaxed), 2);
    drop(Here.holds(Guard, Guard));
    assert_eq!(DROPPED.load(Ordering::Relaxed), 4);
}

/// Through trait objects, as sessions hold tables.
#[test]
fn trait_objects_have_async_methods() {
    #[async_trait]
    trait Table: Send + Sync {
        async fn rows(&self, filter: &(dyn Fn(usize) -> bool + Sync)) -> usize;
    }
    struct Rows(usize);
    #[async_trait]
    impl Table for Rows {
        async fn rows(&self, filter: &(dyn Fn(usize) -> bool + Sync)) -> usize {
            (0..self.0).filter(|row| filter(*row)).count()
        }
    }
    let table: Box<dyn Table> = Box::new(Rows(10));
    assert_eq!(result_of(table.rows(&|row| row % 2 == 0)), 5);
}
