"""Dates and times: which formats are read, what is said of ambiguous ones, and what they become."""

from datetime import UTC, date, datetime, time, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearfold.columns.dates import FORMATS, as_days, find_format, parse
from nearfold.columns.kinds import Kind
from nearfold.columns.preparation import TablePreparation
from nearfold.columns.schema import infer_schema
from nearfold.errors import InputError

MOMENTS = [
    datetime(2021, 1, 1) + timedelta(days=17 * i, hours=5 * i, minutes=7 * i) for i in range(40)
]


def distance(model, one, other):
    X = model.transform(pl.DataFrame({"d": [one, other]}))
    return np.linalg.norm(np.diff(X[:, 1:3], axis=0))  # the place in the year


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_is_read_as_it_was_written(form):
    moments = [m.replace(second=0) if "%S" not in form else m for m in MOMENTS]
    if "%H" not in form:
        moments = [datetime(m.year, m.month, m.day) for m in moments]
    written = pl.Series("d", [m.strftime(form.replace("%.f", ".%f")) for m in moments])
    found = find_format(written)
    assert found is not None
    assert parse(written, found).to_list() == moments


@given(st.lists(st.dates(date(1900, 1, 1), date(2100, 1, 1)), min_size=3, max_size=30))
def test_iso_dates_are_days_since_1970(dates):
    days = as_days(parse(pl.Series([d.isoformat() for d in dates]), "%Y-%m-%d"))
    assert days.tolist() == [(d - date(1970, 1, 1)).days for d in dates]


@pytest.mark.parametrize(
    "texts",
    [["1", "2"], ["2020", "2021"], ["20200101", "20200102"], ["a-b-c"], ["2020-13-01"], ["12:30"]],
)
def test_what_is_no_date(texts):
    assert find_format(pl.Series(texts)) is None


def test_ambiguous_dates_are_said():
    frame = pl.DataFrame({"d": ["03/04/2020", "05/06/2021", "01/02/2020"] * 3})
    schema = infer_schema(frame)
    assert schema.columns[0].kind == Kind.DATE
    (notice,) = schema.notices()
    assert "read as month/day/year, but day/month/year would fit as well" in str(notice)
    clear = pl.DataFrame({"d": ["03/14/2020", "05/06/2021"] * 3})
    assert infer_schema(clear).notices() == []
    british = infer_schema(pl.DataFrame({"d": ["14/03/2020", "05/06/2021"] * 3}))
    assert british.columns[0].details["format"] == "%d/%m/%Y"


def test_new_year_is_near_new_years_eve():
    days = pl.date_range(date(2019, 1, 1), date(2021, 12, 31), "1d", eager=True)
    model = TablePreparation().fit(pl.DataFrame({"d": days}))
    assert model.columns_[0]["parts"] == ["month", "weekday"]
    near = distance(model, date(2020, 12, 31), date(2021, 1, 1))
    far = distance(model, date(2020, 12, 31), date(2020, 7, 1))
    assert near < 0.05
    assert far > 1.9
    elapsed = model.transform(pl.DataFrame({"d": [date(1970, 1, 2), date(2000, 1, 1)]}))[:, 0]
    assert elapsed.tolist() == [1, 10957]


def test_cycles_that_the_dates_do_not_span_are_left_out():
    week = pl.date_range(date(2020, 1, 1), date(2020, 1, 9), "1d", eager=True)
    assert infer_schema(pl.DataFrame({"d": week})).columns[0].details["parts"] == []
    hours = pl.datetime_range(datetime(2020, 1, 1), datetime(2020, 1, 5), "1h", eager=True)
    assert infer_schema(pl.DataFrame({"d": hours})).columns[0].details["parts"] == ["hour"]


def test_a_pair_of_waves_counts_as_one_number():
    days = pl.date_range(date(2019, 1, 1), date(2020, 12, 31), "1d", eager=True)
    X = TablePreparation(numbers="scale").fit_transform(pl.DataFrame({"d": days}))
    assert X[:, 0].var() == pytest.approx(1)
    assert X[:, 1:3].var(axis=0).sum() == pytest.approx(1)
    assert X[:, 3:5].var(axis=0).sum() == pytest.approx(1)


def test_time_zones_are_one_time():
    moments = pd.date_range("2020-01-01", periods=50, freq="31h")
    zones = [moments.tz_localize("UTC").tz_convert(zone) for zone in ("UTC", "Asia/Shanghai")]
    model = TablePreparation()
    first = model.fit_transform(pd.DataFrame({"d": moments}))
    for zoned in zones:
        assert np.allclose(model.transform(pd.DataFrame({"d": zoned})), first)
    own = pl.DataFrame({"d": pl.Series(list(moments)).dt.replace_time_zone("UTC")})
    shifted = own.with_columns(pl.col("d").dt.convert_time_zone("Asia/Shanghai"))
    assert np.allclose(model.transform(own), first)
    assert np.allclose(model.transform(shifted), first)
    objects = pd.DataFrame({"d": pd.Series([m.replace(tzinfo=UTC) for m in MOMENTS], dtype=object)})
    assert np.isfinite(model.transform(objects)).all()


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_spans_of_time_are_days(unit):
    spans = [timedelta(days=i, hours=12) for i in range(5)]
    frame = pl.DataFrame({"s": pl.Series([*spans, None], dtype=pl.Duration(unit))})
    model = TablePreparation(missing="zero")
    assert model.fit_transform(frame)[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 0]
    assert model.columns_ == [{"name": "s", "kind": "number"}]
    other = pd.DataFrame({"s": pd.to_timedelta([*spans, None])})
    assert model.transform(other)[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 0]


def test_times_of_day_are_cyclic():
    times = [time(h, 30) for h in range(24)]
    model = TablePreparation().fit(pl.DataFrame({"t": times}))
    assert model.columns_[0]["parts"] == ["hour"]
    X = model.transform(pl.DataFrame({"t": [time(23, 59), time(0, 1), time(12, 0)]}))
    assert np.linalg.norm(X[0, 1:] - X[1, 1:]) < 0.02
    assert np.linalg.norm(X[0, 1:] - X[2, 1:]) > 1.9


def test_missing_dates_are_filled_and_words_are_refused():
    frame = pl.DataFrame({"d": ["2020-01-01", None, "2020-03-01", "2021-03-02"]})
    model = TablePreparation()
    assert np.isfinite(model.fit_transform(frame)).all()
    with pytest.raises(InputError) as error:
        model.transform(pl.DataFrame({"d": ["2020-01-01", "soon"]}))
    assert "'d' holds 1 cell that is not a date of the form %Y-%m-%d" in str(error.value)
    assert "'soon' in row 2" in str(error.value)


@pytest.mark.parametrize("cells", [[1, 2], [1.5, 2.5], [timedelta(1), timedelta(2)], [[1], [2]]])
def test_what_is_no_date_where_dates_were_is_refused(cells):
    model = TablePreparation().fit(pl.DataFrame({"d": [date(2020, 1, 1), date(2020, 2, 1)]}))
    with pytest.raises(InputError, match=r"column 'd' holds .* expects date or time"):
        model.transform(pl.DataFrame({"d": cells}))


def test_dates_where_numbers_were_are_refused():
    model = TablePreparation().fit(pl.DataFrame({"d": [1.5, 2.5]}))
    with pytest.raises(InputError, match="column 'd' holds Date, and the model expects number"):
        model.transform(pl.DataFrame({"d": [date(2020, 1, 1)]}))


@pytest.mark.parametrize(
    "texts",
    [
        ["2020-06-01T12:30:00+02:00", "2020-01-01T12:30:00+01:00"],
        ["2020-06-01 12:30:00+0200", "2020-01-01 11:30:00Z"],
        ["2020-06-01 12:30:00.000 +0200", "2020-01-01 11:30:00.000 UTC"],
        ["2020-06-01T10:30Z", "2020-01-01T11:30Z"],
    ],
)
def test_offsets_from_utc_are_read(texts):
    form = find_format(pl.Series(texts))
    assert form is not None
    moments = [datetime(2020, 6, 1, 10, 30), datetime(2020, 1, 1, 11, 30)]
    assert parse(pl.Series(texts), form).to_list() == moments
    column = infer_schema(pl.DataFrame({"d": texts * 5})).columns[0]
    assert column.kind == Kind.DATE


def test_a_few_cells_that_are_no_dates_count_as_missing():
    days = [f"2024-01-{day:02d}" for day in range(1, 21)]
    model = TablePreparation().fit(pl.DataFrame({"d": days}))
    new = pl.DataFrame({"d": [*days[:-1], "soon"]})
    cells = model.read(new)
    assert [notice.values["word"] for notice in cells.notices] == ["'soon'"]
    missing = pl.DataFrame({"d": [*days[:-1], None]})
    assert (model.transform(new) == model.transform(missing)).all()
