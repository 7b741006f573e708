//! Distances and similarities of two texts, by the package `strsim`.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

/// What is computed of two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Measure {
    DamerauLevenshtein,
    /// Places with other characters; texts of one length.
    Hamming,
    Jaro,
    JaroWinkler,
}

/// The functions.
pub(super) fn functions() -> Vec<ScalarUDF> {
    use Measure::{DamerauLevenshtein, Hamming, Jaro, JaroWinkler};
    let named = [
        ("damerau_levenshtein", DamerauLevenshtein),
        ("hamming", Hamming),
        ("jaro_similarity", Jaro),
        ("jaro_winkler_similarity", JaroWinkler),
    ];
    let signature = Signature::string(2, Volatility::Immutable);
    let function = |(name, measure)| {
        ScalarUDF::new_from_impl(Similarity {
            name,
            measure,
            signature: signature.clone(),
        })
    };
    named.into_iter().map(function).collect()
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Similarity {
    name: &'static str,
    measure: Measure,
    signature: Signature,
}

impl ScalarUDFImpl for Similarity {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.measure {
            Measure::DamerauLevenshtein | Measure::Hamming => DataType::Int64,
            Measure::Jaro | Measure::JaroWinkler => DataType::Float64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let texts = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right] = texts.as_slice() else {
            return exec_err!("{} takes two texts", self.name);
        };
        let (left, right) = (cast(left, &DataType::Utf8)?, cast(right, &DataType::Utf8)?);
        let pairs = left.as_string::<i32>().iter().zip(right.as_string::<i32>().iter());
        let pairs = pairs.map(|(left, right)| left.zip(right));
        let found: Arc<dyn Array> = match self.measure {
            Measure::DamerauLevenshtein => {
                let distance = |(a, b): (&str, &str)| strsim::damerau_levenshtein(a, b) as i64;
                Arc::new(pairs.map(|pair| pair.map(distance)).collect::<Int64Array>())
            }
            Measure::Hamming => Arc::new(
                pairs
                    .map(|pair| pair.map(hamming).transpose())
                    .collect::<Result<Int64Array>>()?,
            ),
            Measure::Jaro => {
                let similarity = |(a, b): (&str, &str)| strsim::jaro(a, b);
                Arc::new(pairs.map(|pair| pair.map(similarity)).collect::<Float64Array>())
            }
            Measure::JaroWinkler => {
                let similarity = |(a, b): (&str, &str)| strsim::jaro_winkler(a, b);
                Arc::new(pairs.map(|pair| pair.map(similarity)).collect::<Float64Array>())
            }
        };
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?)),
            false => Ok(ColumnarValue::Array(found)),
        }
    }
}

fn hamming((left, right): (&str, &str)) -> Result<i64> {
    match strsim::hamming(left, right) {
        Ok(places) => Ok(places as i64),
        Err(_) => exec_err!("hamming takes texts of one length, not {left:?} and {right:?}"),
    }
}
