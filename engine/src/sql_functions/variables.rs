//! `getvariable`: the value of a variable that `SET VARIABLE` has set.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The variables of a session by their names in lower case; an extension of the session's configuration.
#[derive(Debug, Default)]
pub(crate) struct Variables(RwLock<HashMap<String, ScalarValue>>);

impl Variables {
    /// Sets a variable.
    pub(crate) fn set(&self, name: &str, value: ScalarValue) {
        let mut variables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        variables.insert(name.to_lowercase(), value);
    }

    /// The value of a variable; NULL if it was not set.
    fn get(&self, name: &str) -> ScalarValue {
        let variables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        variables
            .get(&name.to_lowercase())
            .cloned()
            .unwrap_or(ScalarValue::Null)
    }
}

/// The function of a session.
#[derive(Debug)]
pub(super) struct GetVariable {
    signature: Signature,
    variables: Arc<Variables>,
}

impl GetVariable {
    pub(super) fn new(variables: Arc<Variables>) -> Self {
        Self {
            // The value may change between two queries, so that no plan keeps it.
            signature: Signature::any(1, Volatility::Stable),
            variables,
        }
    }
}

impl PartialEq for GetVariable {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.variables, &other.variables)
    }
}

impl Eq for GetVariable {}

impl Hash for GetVariable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.variables).hash(state);
    }
}

impl ScalarUDFImpl for GetVariable {
    fn name(&self) -> &'static str {
        "getvariable"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type is that of the variable")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.scalar_arguments {
            [Some(name)] => {
                let data_type = self.variables.get(&text(name)?).data_type();
                Ok(Arc::new(Field::new(self.name(), data_type, true)))
            }
            _ => plan_err!("getvariable takes the name of a variable in quotes"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Scalar(name)] => Ok(ColumnarValue::Scalar(self.variables.get(&text(name)?))),
            _ => plan_err!("getvariable takes the name of a variable in quotes"),
        }
    }
}

fn text(name: &ScalarValue) -> Result<String> {
    match name.try_as_str() {
        Some(Some(name)) => Ok(name.to_owned()),
        _ => plan_err!("getvariable takes the name of a variable in quotes"),
    }
}
