//! What operators, launchers and users ask a running daemon, and what it answers.
//!
//! One set of types serves the control socket, the HTTP API, the agent's relay and the command: a request is an
//! [`Operation`], and names the type of its answer. Both are JSON; `docs/schema` has JSON Schema of them, made
//! from these types.
//!
//! A new operation is a struct with its fields, a line in the table of its daemon (such as
//! [`controller::Request`]), an arm in that daemon's handler, and a printer in the command.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub mod agent;
pub mod controller;
pub mod manager;

/// Rises when a key of an answer changes its meaning or goes. New keys may come without that.
pub const SCHEMA_VERSION: u32 = 2;

/// What one asks a daemon.
pub trait Operation: Serialize + DeserializeOwned {
    /// The value of the key `command`.
    const COMMAND: &'static str;
    /// What is answered, unless it is refused.
    type Answer: Serialize + DeserializeOwned;

    /// The request as it is sent.
    fn request(&self) -> Value {
        match serde_json::to_value(self) {
            Ok(Value::Object(mut keys)) => {
                keys.insert("command".to_owned(), Self::COMMAND.into());
                keys.into()
            }
            // Structs of texts and numbers are objects.
            _ => json!({ "command": Self::COMMAND }),
        }
    }

    /// With this answer, as [`Document`].
    fn document(&self, answer: Self::Answer) -> Document<Self::Answer> {
        Document::of(answer)
    }

    /// The same as JSON.
    ///
    /// # Errors
    /// Never for what the types of this module hold.
    fn said(&self, answer: Self::Answer) -> Result<Value, String> {
        self.document(answer).value()
    }
}

/// An answer, and which version of these types it follows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Document<A> {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The keys of the answer.
    #[serde(flatten)]
    pub answer: A,
}

impl<A> Document<A> {
    /// Of these types.
    pub const fn of(answer: A) -> Self {
        Self { schema_version: SCHEMA_VERSION, answer }
    }
}

impl<A: Serialize> Document<A> {
    /// As JSON.
    ///
    /// # Errors
    /// Never for what the types of this module hold.
    pub fn value(&self) -> Result<Value, String> {
        serde_json::to_value(self).map_err(|error| error.to_string())
    }
}

/// A certificate that has ended, or ends within a month.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Certificate {
    /// It has ended: no session begins with it.
    pub is_over: bool,
    /// Which, when, and what makes a new one.
    pub line: String,
}

/// What happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// The oldest first.
    pub events: Vec<Event>,
}

/// An event, as a line of JSON: `event` says what happened, `seq` its number; other keys depend on `event`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Event(pub Map<String, Value>);

impl From<Value> for Event {
    /// What is no object becomes the event's name.
    fn from(value: Value) -> Self {
        match value {
            Value::Object(keys) => Self(keys),
            other => Self(Map::from_iter([("event".to_owned(), other)])),
        }
    }
}

impl JsonSchema for Event {
    fn schema_name() -> Cow<'static, str> {
        "Event".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "What happened: `event` says what, `seq` is its number; other keys depend on `event`.",
            "properties": { "event": { "type": "string" }, "seq": { "type": "integer" } },
            "required": ["event", "seq"]
        })
    }
}

/// An operation from the keys of a request.
fn parse<O: DeserializeOwned>(body: Value) -> Result<O, String> {
    serde_path_to_error::deserialize(body).map_err(|error| match error.path().to_string() {
        path if path == "." => error.inner().to_string(),
        path => format!("`{path}`: {}", error.inner()),
    })
}

/// A generator for schemas of what is answered.
fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().into_generator()
}

/// The table of a daemon's operations: an enum of all requests, and for each the type of its answer.
macro_rules! operations {
    (
        $(#[$about:meta])* $name:ident of $daemon:literal
        { $($operation:ident $command:literal -> $answer:ty,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Debug, Serialize)]
        #[serde(tag = "command")]
        pub enum $name {
            $(
                #[doc = concat!("See [`", stringify!($operation), "`].")]
                #[serde(rename = $command)]
                $operation($operation),
            )*
        }

        $(
            impl Operation for $operation {
                const COMMAND: &'static str = $command;
                type Answer = $answer;
            }

            impl From<$operation> for $name {
                fn from(operation: $operation) -> Self {
                    Self::$operation(operation)
                }
            }
        )*

        impl $name {
            /// Every value of `command`.
            pub const COMMANDS: &'static [&'static str] = &[$($command),*];

            /// The request `command` whose other keys are `body`'s.
            ///
            /// # Errors
            /// What is wrong, in one line that names the key.
            pub fn parse(command: &str, body: serde_json::Value) -> Result<Self, String> {
                match command {
                    $($command => super::parse(body).map(Self::$operation),)*
                    other => Err(format!("no command {other:.40}: {}", Self::COMMANDS.join(", "))),
                }
            }

            /// JSON Schema: for each command its request and its answer.
            pub fn schema() -> serde_json::Value {
                let mut generator = super::generator();
                let mut commands = serde_json::Map::new();
                $(
                    let request = generator.subschema_for::<$operation>();
                    let answer = generator.subschema_for::<$answer>();
                    commands.insert(
                        $command.to_owned(),
                        serde_json::json!({
                            "type": "object", "properties": { "request": request, "answer": answer },
                        }),
                    );
                )*
                serde_json::json!({
                    "$schema": "https://json-schema.org/draft/2020-12/schema",
                    "title": concat!("What operators ask ", $daemon, ", and what it answers"),
                    "$comment": concat!("Made from the types: ", $daemon, " --dump-schema"),
                    "type": "object",
                    "properties": commands,
                    "$defs": generator.take_definitions(true),
                })
            }
        }
    };
}
use operations;
