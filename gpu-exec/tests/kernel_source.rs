//! The source of generated kernels, as snapshots. A change here is a change of every cached kernel.

mod common;

use common::{aggregate, arg, binary, col, column, count, paged_shape, shape, sum, taxi};
use grampus_gpu_exec::codegen::{Access, Grouping, KernelOutline, QueryKernel, Shape, TableScope, slow_path};
use grampus_gpu_exec::program::{Aggregate, BinaryOp, DatePart, Expr, Function, MathFunction, Program, TimeUnit, Type};

fn text(program: &Program, shape: &Shape) -> String {
    let kernel = QueryKernel::generate(program, shape).expect("a valid program");
    kernel.source().to_owned()
}

#[test]
fn a_filter_and_a_sum_of_the_same_column() {
    let program = taxi(0);
    insta::assert_snapshot!(text(
        &program,
        &shape(&program, Access::Plain, true, Grouping::Ungrouped)
    ));
}

#[test]
fn a_filter_and_sums_of_five_other_columns() {
    let program = taxi(5);
    insta::assert_snapshot!(text(
        &program,
        &shape(&program, Access::Plain, false, Grouping::Ungrouped)
    ));
}

#[test]
fn dependent_columns_by_commands() {
    let program = taxi(2);
    insta::assert_snapshot!(text(
        &program,
        &shape(&program, Access::Queued, false, Grouping::Ungrouped)
    ));
}

#[test]
fn dependent_columns_by_page() {
    let mut program = taxi(3);
    program.conjuncts.push(binary(BinaryOp::Gt, col(2), arg(0)));
    insta::assert_snapshot!(text(&program, &paged_shape(&program, true, Grouping::Ungrouped)));
}

#[test]
fn tile_columns_cannot_be_paged() {
    let program = taxi(1);
    let refused = QueryKernel::generate(&program, &shape(&program, Access::Paged, true, Grouping::Ungrouped));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("trip_distance is read whole"), "{refused}");
}

/// Counts and sums per passenger count and year, over a range of pickup times:
///
/// ```sql
/// SELECT passenger_count, count(*), sum(fare) FILTER (WHERE tip > $1), …
/// WHERE pickup BETWEEN $2 AND $3 GROUP BY passenger_count, extract(year FROM pickup)
/// ```
fn grouped() -> Program {
    let pickup = || col(0);
    Program {
        columns: vec![
            column("pickup", Type::Timestamp(TimeUnit::Microsecond), false),
            column("passenger_count", Type::Int64, true),
            column("fare", Type::Float64, true),
            column("tip", Type::Float64, false),
        ],
        arguments: vec![
            Type::Float64,
            Type::Timestamp(TimeUnit::Microsecond),
            Type::Timestamp(TimeUnit::Microsecond),
        ],
        conjuncts: vec![
            binary(BinaryOp::GtEq, pickup(), arg(1)),
            binary(BinaryOp::Lt, pickup(), arg(2)),
        ],
        keys: vec![
            col(1),
            Expr::Extract {
                part: DatePart::Year,
                value: Box::new(pickup()),
            },
        ],
        aggregates: vec![
            count(),
            Aggregate {
                filter: Some(binary(BinaryOp::Gt, col(3), arg(0))),
                ..sum(col(2))
            },
            aggregate(Function::Max, Some(col(3))),
        ],
    }
}

#[test]
fn groups_of_a_warp() {
    let program = grouped();
    insta::assert_snapshot!(text(&program, &shape(&program, Access::Plain, true, Grouping::Private)));
}

/// Passengers by month, of long trips.
fn coded() -> Program {
    Program {
        columns: vec![
            column("passenger_count", Type::Float64, true),
            column("pickup_datetime", Type::Timestamp(TimeUnit::Microsecond), true),
            column("trip_distance", Type::Float64, false),
        ],
        arguments: vec![Type::Float64],
        conjuncts: vec![binary(BinaryOp::GtEq, col(2), arg(0))],
        keys: vec![
            col(0),
            Expr::Truncate {
                part: DatePart::Month,
                value: Box::new(col(1)),
            },
            Expr::Extract {
                part: DatePart::Hour,
                value: Box::new(col(1)),
            },
        ],
        aggregates: vec![aggregate(Function::Count, Some(col(0))), sum(col(0))],
    }
}

#[test]
fn groups_by_code_of_a_block() {
    let mut program = coded();
    program.aggregates = vec![count()];
    let shape = shape(&program, Access::Plain, true, Grouping::Coded(TableScope::Block));
    insta::assert_snapshot!(text(&program, &shape));
}

#[test]
fn groups_by_code_of_a_lane() {
    let program = coded();
    let lane = shape(&program, Access::Plain, false, Grouping::Coded(TableScope::Lane));
    insta::assert_snapshot!(text(&program, &lane));
    let warp = text(
        &program,
        &shape(&program, Access::Plain, false, Grouping::Coded(TableScope::Warp)),
    );
    assert_eq!(
        warp,
        text(&program, &lane).replace("LaneGroups", "WarpGroups"),
        "the scope decides by a type"
    );
}

#[test]
fn groups_by_code_need_a_dense_kernel_of_loads() {
    let program = coded();
    let by_command = shape(&program, Access::Queued, true, Grouping::Coded(TableScope::Lane));
    assert!(QueryKernel::generate(&program, &by_command).is_err());
    let mut by_row = shape(&program, Access::Plain, true, Grouping::Coded(TableScope::Lane));
    by_row.dense = false;
    assert!(QueryKernel::generate(&program, &by_row).is_err());
}

/// A dense kernel with a filter reads all columns in tiles, and has no ring.
#[test]
fn a_dense_kernel_has_no_rings() {
    let program = taxi(5);
    let mut shape = shape(&program, Access::Plain, true, Grouping::Ungrouped);
    shape.dense = true;
    let kernel = QueryKernel::generate(&program, &shape).expect("a valid program");
    let outline = KernelOutline::new(&program, &shape).expect("a valid program");
    assert_eq!(outline.tile_columns(), [0, 1, 2, 3, 4, 5]);
    assert!(!kernel.source().contains("Ring<"), "{}", kernel.source());
    assert_eq!(kernel.steps(), 0);
}

#[test]
fn groups_of_all_warps() {
    let program = grouped();
    let text = text(&program, &shape(&program, Access::Plain, true, Grouping::Global));
    assert!(
        text.contains("add_to_all<Words>(head, active, key, word)") && !text.contains("OwnGroups"),
        "{text}"
    );
}

#[test]
fn nulls_case_and_casts() {
    let program = Program {
        columns: vec![
            column("a", Type::Int32, true),
            column("b", Type::Int32, true),
            column("flag", Type::Bool, true),
        ],
        arguments: vec![Type::Int32, Type::Int32],
        conjuncts: vec![binary(
            BinaryOp::Or,
            col(2),
            Expr::InList {
                value: Box::new(col(0)),
                list: vec![arg(0), arg(1), col(1)],
                negated: true,
            },
        )],
        keys: vec![],
        aggregates: vec![sum(Expr::Case {
            branches: vec![(
                binary(BinaryOp::Lt, col(0), col(1)),
                binary(BinaryOp::Divide, col(0), col(1)),
            )],
            otherwise: Some(Box::new(Expr::Coalesce(vec![
                Expr::Cast {
                    value: Box::new(col(2)),
                    to: Type::Int32,
                },
                arg(0),
            ]))),
        })],
    };
    insta::assert_snapshot!(text(
        &program,
        &shape(&program, Access::Plain, true, Grouping::Ungrouped)
    ));
}

/// The distance of t4: `CAST(floor(trip_distance) AS INT)`.
#[test]
fn functions_of_floats() {
    let mut program = taxi(1);
    let floor = |value: Expr| Expr::Math {
        function: MathFunction::Floor,
        value: Box::new(value),
    };
    program.keys = vec![Expr::Cast {
        value: Box::new(floor(col(0))),
        to: Type::Int32,
    }];
    let text = text(&program, &shape(&program, Access::Plain, true, Grouping::Private));
    assert!(
        text.contains("floor_of(c0)") && text.contains("truncate<i32>("),
        "{text}"
    );
    program.columns[0].ty = Type::Int64;
    program.arguments[0] = Type::Int64;
    let error = program.check().unwrap_err().to_string();
    assert!(error.contains("floor of a int64"), "{error}");
}

#[test]
fn no_filter_reads_everything_in_tiles() {
    let mut program = taxi(2);
    program.conjuncts.clear();
    let text = text(&program, &shape(&program, Access::Plain, true, Grouping::Ungrouped));
    assert!(
        !text.contains("stage_1") && text.contains("tile_1[K]") && text.contains("tile_2[K]"),
        "{text}"
    );
    assert!(text.contains("c0: trip_distance, float64, read not at all"), "{text}");
}

#[test]
fn column_names_cannot_end_a_comment() {
    let mut program = taxi(1);
    program.columns[0].name = "x\n#error \\".to_owned();
    let text = text(&program, &shape(&program, Access::Plain, true, Grouping::Ungrouped));
    assert!(!text.contains("\n#error") && !text.contains('\\'), "{text}");
}

#[test]
fn stages_are_a_unit_of_their_own() {
    let mut program = taxi(5);
    program.conjuncts.push(binary(BinaryOp::Gt, col(2), arg(0)));
    let shape = shape(&program, Access::Queued, true, Grouping::Ungrouped);
    let kernel = QueryKernel::generate(&program, &shape).expect("a valid program");
    let units = kernel.units_to_link();
    let [tiles, stages] = &units[..] else {
        panic!("{} units", units.len());
    };
    for function in ["send_1", "stage_1", "stage_2", "drain"] {
        let head = format!("GRAMPUS_ENTRY bool {function}(const QueryParameter& parameter, ");
        assert_eq!(kernel.source().matches(&head).count(), 1, "{function}");
        let follows = |unit: &str, end: &str| {
            let lines = unit.lines().filter(|line| line.starts_with(&head));
            let ends: Vec<bool> = lines.map(|line| line.ends_with(end)).collect();
            ends == [true]
        };
        assert!(follows(tiles, ");"), "{function} is declared\n{tiles}");
        assert!(follows(stages, ") {"), "{function} is defined\n{stages}");
    }
    let entry = "GRAMPUS_KERNEL(grampus_query,";
    assert!(tiles.contains(entry) && !stages.contains(entry));
}

#[test]
fn kernel_without_stages_is_one_unit() {
    let program = taxi(0);
    let shape = shape(&program, Access::Plain, true, Grouping::Ungrouped);
    let kernel = QueryKernel::generate(&program, &shape).expect("a valid program");
    assert_eq!(kernel.units_to_link().len(), 1, "{}", kernel.source());
}

/// Code that a kernel does not call takes compile time.
#[test]
fn unit_has_the_headers_that_its_kernel_needs() {
    let headers = |program: &Program, access: Access, grouping: Grouping| {
        let shape = shape(program, access, true, grouping);
        let kernel = QueryKernel::generate(program, &shape).expect("a valid program");
        let units = kernel.units_to_link();
        ["column_array.cuh", "dates.cuh", "groups.cuh"].map(|name| {
            let has = |unit: &String| unit.contains(&format!("\n#line 1 \"grampus/{name}\"\n"));
            assert!(units.iter().all(has) || !units.iter().any(has), "{name}");
            units.iter().all(has)
        })
    };
    let plain = taxi(5);
    assert_eq!(headers(&plain, Access::Plain, Grouping::Ungrouped), [false; 3]);
    assert_eq!(
        headers(&plain, Access::Queued, Grouping::Ungrouped),
        [true, false, false]
    );
    let mut grouped = plain.clone();
    grouped.keys = vec![col(1)];
    assert_eq!(
        headers(&grouped, Access::Plain, Grouping::Private),
        [false, false, true]
    );
    let mut dated = plain.clone();
    dated.columns[1].ty = Type::Date32;
    dated.aggregates = vec![sum(Expr::Extract {
        part: DatePart::Year,
        value: Box::new(col(1)),
    })];
    assert_eq!(
        headers(&dated, Access::Plain, Grouping::Ungrouped),
        [false, true, false]
    );
}

/// Units that are linked with the slow path leave the assertions out.
#[test]
fn slow_path_has_all_layout_asserts() {
    let shared = grampus_io_stack::abi::static_asserts();
    for unit in [slow_path(false), slow_path(true)] {
        assert!(unit.contains(&shared));
        for name in [
            "QueryHead",
            "RowRun",
            "PagedPiece",
            "PagingDesc",
            "PageBatch",
            "PagesCame",
        ] {
            let size = format!("static_assert(sizeof(grampus::{name}) == ");
            assert!(unit.contains(&size), "{name}");
        }
    }
}
