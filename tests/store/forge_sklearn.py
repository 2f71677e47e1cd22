"""Small fitted models of every class of scikit-learn's that a model file may hold."""

import numpy as np
from forge_rows import CODES, GAPS, MIXED, NEW, SPARSE, TABLE, TEXTS, WORDS, X, Y
from sklearn import preprocessing as p
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.covariance import OAS, EmpiricalCovariance, LedoitWolf, ShrunkCovariance
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold, chi2
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline

import nearfold as nf

AVERAGED = {"quantile_method": "averaged_inverted_cdf"}
TEXT = MIXED[:, 4:]
WITH_NONE = np.array([["a"], ["b"], [None], ["a"], [None], ["c"]], dtype=object)


def _columns(**options):
    parts = [
        ("n", p.StandardScaler(), [0, 1]),
        ("k", p.OneHotEncoder(), [4]),
        ("p", "passthrough", [2]),
    ]
    return ColumnTransformer(parts, **options)


def _nested_columns():
    numbers = make_pipeline(SimpleImputer(), p.StandardScaler(), nf.PCA(1))
    chosen = make_column_selector(dtype_include=float)
    return ColumnTransformer(
        [("n", numbers, chosen), ("t", p.OneHotEncoder(sparse_output=False), ["t"])],
        transformer_weights={"n": 2.0},
    )


def _union():
    parts = [("a", p.MaxAbsScaler()), ("b", make_pipeline(p.StandardScaler(), nf.PCA(2)))]
    return FeatureUnion([*parts, ("d", "drop")], transformer_weights={"a": 0.5})


WAYS = {
    "sk scaled": lambda: (make_pipeline(p.StandardScaler(), p.MinMaxScaler()).fit(X), NEW),
    "sk scaled gaps": lambda: (p.StandardScaler().fit(GAPS), NEW),
    "sk scaled sparse": lambda: (p.StandardScaler(with_mean=False).fit(SPARSE), SPARSE[:5]),
    "sk unscaled": lambda: (p.StandardScaler(with_mean=False, with_std=False).fit(X), NEW),
    "sk clipped": lambda: (p.MinMaxScaler((-1, 3), clip=True).fit(TABLE), TABLE),
    "sk half": lambda: (p.MinMaxScaler().fit(X.astype("f2")), NEW.astype("f2")),
    "sk ranged": lambda: (make_pipeline(p.MaxAbsScaler(), p.RobustScaler()).fit(X), NEW),
    "sk ranged sparse": lambda: (
        make_pipeline(p.MaxAbsScaler(), p.RobustScaler(with_centering=False)).fit(SPARSE),
        SPARSE[:5],
    ),
    "sk normal": lambda: (make_pipeline(p.Normalizer(), p.Binarizer(), TruncatedSVD()).fit(X), NEW),
    "sk SVD sparse": lambda: (TruncatedSVD(2, random_state=0).fit(SPARSE), SPARSE[:5]),
    "sk covariance": lambda: (LedoitWolf().fit(X), NEW),
    "sk OAS": lambda: (OAS(store_precision=False).fit(X), NEW),
    "sk empirical": lambda: (EmpiricalCovariance(assume_centered=True).fit(X), NEW),
    "sk shrunk": lambda: (ShrunkCovariance(shrinkage=0.3).fit(X), NEW),
    "sk power": lambda: (make_pipeline(p.PowerTransformer(), p.RobustScaler()).fit(X), NEW),
    "sk Box-Cox": lambda: (
        p.PowerTransformer("box-cox", standardize=False).fit(X**2 + 1),
        NEW**2 + 1,
    ),
    "sk bins": lambda: (
        make_pipeline(p.KBinsDiscretizer(3, **AVERAGED), SelectKBest()).fit(X, Y),
        NEW,
    ),
    "sk bins ordinal": lambda: (
        p.KBinsDiscretizer(3, encode="ordinal", strategy="uniform").fit(X),
        NEW,
    ),
    "sk bins dense": lambda: (
        p.KBinsDiscretizer(3, encode="onehot-dense", strategy="kmeans", random_state=0).fit(X),
        NEW,
    ),
    "sk percentile": lambda: (
        make_pipeline(p.MinMaxScaler(), SelectPercentile(chi2, percentile=50)).fit(X, Y),
        NEW,
    ),
    "sk rare": lambda: (
        p.OneHotEncoder(min_frequency=13, handle_unknown="ignore").fit(TEXT[:35]),
        TEXT,
    ),
    "sk rare ordinal": lambda: (p.OrdinalEncoder(max_categories=2).fit(TEXT[:35]), TEXT),
    "sk filled": lambda: (
        make_pipeline(SimpleImputer(add_indicator=True), p.PolynomialFeatures()).fit(GAPS),
        GAPS,
    ),
    "sk filled text": lambda: (
        SimpleImputer(missing_values=None, strategy="most_frequent").fit(WITH_NONE),
        WITH_NONE,
    ),
    "sk filled constant": lambda: (
        SimpleImputer(strategy="constant", fill_value=-1.5, keep_empty_features=True).fit(GAPS),
        GAPS,
    ),
    "sk missing": lambda: (MissingIndicator().fit(GAPS), GAPS),
    "sk missing all": lambda: (MissingIndicator(features="all", sparse=True).fit(GAPS), GAPS),
    "sk polynomial": lambda: (
        p.PolynomialFeatures((1, 3), interaction_only=True, include_bias=False).fit(X),
        NEW,
    ),
    "sk function": lambda: (
        make_pipeline(
            p.FunctionTransformer(np.cbrt, inverse_func=np.sinh, feature_names_out="one-to-one"),
            p.StandardScaler(),
        ).fit(X),
        NEW,
    ),
    "sk united": lambda: (
        FeatureUnion([("a", p.MaxAbsScaler()), ("c", VarianceThreshold())]).fit(X),
        NEW,
    ),
    "sk united nested": lambda: (_union().fit(X), NEW),
    "sk labels": lambda: (p.LabelEncoder().fit(WORDS), WORDS),
    "sk label numbers": lambda: (p.LabelEncoder().fit(Y), Y),
    "sk columns": lambda: (_columns(remainder="passthrough").fit(CODES), CODES),
    "sk columns frame": lambda: (
        ColumnTransformer(
            [
                ("i", make_pipeline(SimpleImputer(), p.MinMaxScaler()), ["a", "b"]),
                ("d", "drop", "c"),
            ]
        ).fit(TABLE),
        TABLE,
    ),
    "sk columns nested": lambda: (_nested_columns().fit(TEXTS), TEXTS),
    "sk columns slice": lambda: (
        ColumnTransformer([("a", p.MaxAbsScaler(), slice(0, 2))], remainder=p.StandardScaler()).fit(
            X
        ),
        NEW,
    ),
    "sk ordinal": lambda: (p.OrdinalEncoder().fit(TEXT), TEXT),
    "sk ordinal unknown": lambda: (
        p.OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
        ).fit(WITH_NONE),
        WITH_NONE,
    ),
    "sk one-hot drop": lambda: (p.OneHotEncoder(drop="first").fit(TEXT), TEXT),
    "sk one-hot numbers": lambda: (
        p.OneHotEncoder(sparse_output=False, dtype=np.float32).fit(CODES[:, 4:]),
        CODES[:, 4:],
    ),
    "sk one-hot none": lambda: (p.OneHotEncoder(drop="if_binary").fit(WITH_NONE), WITH_NONE),
    "sk quantiles": lambda: (p.QuantileTransformer(n_quantiles=7).fit(X), NEW),
    "sk quantiles normal": lambda: (
        p.QuantileTransformer(n_quantiles=9, output_distribution="normal").fit(X),
        NEW,
    ),
    "pipe columns": lambda: (make_pipeline(_columns(), nf.PCA(2)).fit(MIXED, Y), MIXED),
    "target": lambda: (
        TransformedTargetRegressor(nf.KNeighborsRegressor(), transformer=p.StandardScaler()).fit(
            X, Y * 2.0
        ),
        NEW,
    ),
    "target function": lambda: (
        TransformedTargetRegressor(
            make_pipeline(p.StandardScaler(), nf.KNeighborsRegressor()),
            func=np.log1p,
            inverse_func=np.expm1,
        ).fit(X, Y * 2.0),
        NEW,
    ),
    "target columns": lambda: (
        TransformedTargetRegressor(
            nf.RadiusNeighborsRegressor(50.0), transformer=p.MinMaxScaler()
        ).fit(X, X[:, :2]),
        NEW,
    ),
}
