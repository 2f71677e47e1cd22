"""Small fitted models of every method and of many ways of fitting, with rows to ask them about."""

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.covariance import LedoitWolf
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import nearfold as nf
from nearfold.registry import METHODS
from nearfold.store.preparation import TablePreparation

N, D = 36, 4
RANDOM = np.random.RandomState(5)
X = RANDOM.normal(size=(N, D)) * np.arange(1, D + 1)
Y = np.arange(N) % 3
NEW = X[::4] + 0.01
WORDS = np.array(["a", "b", "c"], dtype=object)[Y]
DISTANCES = np.sqrt(((X[:, None] - X) ** 2).sum(-1))
MANY = np.tile(X, (8, 1)) + np.arange(8 * N)[:, None] / 99
GAPS = np.where(X > 4, np.nan, X)
AVERAGED = {"quantile_method": "averaged_inverted_cdf"}
SPARSE = sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0))


def _mixed():
    return np.column_stack([X.astype(object), WORDS])


def _table():
    return pd.DataFrame(X, columns=list("abcd"))


def _columns(**options):
    parts = [
        ("n", StandardScaler(), [0, 1]),
        ("k", OneHotEncoder(), [4]),
        ("p", "passthrough", [2]),
    ]
    return ColumnTransformer(parts, **options)


def X_with_codes():
    return np.column_stack([X, Y])


WAYS = {
    "kNN manhattan": lambda: (nf.KNeighborsClassifier(metric="manhattan").fit(X, WORDS), NEW),
    "kNN ball tree": lambda: (nf.KNeighborsRegressor(algorithm="ball_tree", p=3).fit(X, X), NEW),
    "kNN sparse": lambda: (nf.KNeighborsClassifier(metric="cosine").fit(SPARSE, Y), SPARSE[:5]),
    "kNN learned": lambda: (nf.KNeighborsClassifier(metric=nf.LFDA(k=3)).fit(X, Y), NEW),
    "kNN outputs": lambda: (
        nf.KNeighborsClassifier(weights="distance").fit(X, np.column_stack([Y, Y[::-1]])),
        NEW,
    ),
    "kNN tree": lambda: (nf.NearestNeighbors().fit(MANY), NEW),
    "precomputed": lambda: (
        nf.NearestNeighbors(metric="precomputed").fit(DISTANCES),
        DISTANCES[:5],
    ),
    "seuclidean": lambda: (
        nf.NearestNeighbors(metric="seuclidean", metric_params={"V": X.var(axis=0)}).fit(X),
        NEW,
    ),
    "PCA whitened": lambda: (nf.PCA(0.9, whiten=True).fit(X), NEW),
    "PCA float32": lambda: (nf.PCA(2).fit(X.astype("f4")), NEW.astype("f4")),
    "PCA pandas": lambda: (nf.PCA(2).set_output(transform="pandas").fit(_table()), _table()),
    "IPCA batches": lambda: (nf.IncrementalPCA(2).partial_fit(X[:20]).partial_fit(X[20:]), NEW),
    "KPCA inverse": lambda: (nf.KernelPCA(2, kernel="rbf", fit_inverse_transform=True).fit(X), NEW),
    "KPCA low rank": lambda: (nf.KernelPCA(2, kernel="rbf", gamma=0.05, low_rank=12).fit(X), NEW),
    "MDS nonmetric": lambda: (nf.MDS(metric_mds=False, init="classical_mds").fit(X), NEW),
    "MDS landmarks": lambda: (nf.MDS(n_landmarks=12, init="classical_mds").fit(X), NEW),
    "CMDS blocks": lambda: (nf.ClassicalMDS(metric="cityblock", n_landmarks=12).fit(X), NEW),
    "Isomap landmarks": lambda: (nf.Isomap(n_landmarks=12, n_neighbors=8).fit(X), NEW),
    "Isomap pieces": lambda: (
        nf.Isomap(disconnected="each").fit(np.vstack([X[:18], X[18:] + 500])),
        NEW,
    ),
    "Isomap regressor": lambda: (nf.Isomap(extension="regressor").fit(X), NEW),
    "Isomap cosine": lambda: (nf.Isomap(metric="cosine").fit(X), NEW),
    "LTSA": lambda: (nf.LocallyLinearEmbedding(method="ltsa", n_neighbors=8).fit(X), NEW),
    "LDA eigen": lambda: (
        nf.LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(X, WORDS),
        NEW,
    ),
    "MMC pairs": lambda: (
        nf.MMC().fit(np.stack([X[:20], X[16:]], axis=1), np.where(np.arange(20) % 2, 1, -1)),
        NEW,
    ),
    "pipe PCA": lambda: (make_pipeline(StandardScaler(), nf.PCA(2)).fit(X), NEW),
    "pipe kNN": lambda: (
        make_pipeline(RobustScaler(), nf.PCA(3), nf.KNeighborsClassifier(3)).fit(X, Y),
        NEW,
    ),
    "pipe table": lambda: (
        make_pipeline(TablePreparation(missing="mean"), MaxAbsScaler(), nf.PCA(2)).fit(_table()),
        _table(),
    ),
    "sk scaled": lambda: (make_pipeline(StandardScaler(), MinMaxScaler()).fit(X), NEW),
    "sk ranged": lambda: (make_pipeline(MaxAbsScaler(), RobustScaler()).fit(X), NEW),
    "sk normal": lambda: (make_pipeline(Normalizer(), Binarizer(), TruncatedSVD()).fit(X), NEW),
    "sk covariance": lambda: (LedoitWolf().fit(X), NEW),
    "sk power": lambda: (make_pipeline(PowerTransformer(), RobustScaler()).fit(X), NEW),
    "sk bins": lambda: (
        make_pipeline(KBinsDiscretizer(3, **AVERAGED), SelectKBest()).fit(X, Y),
        NEW,
    ),
    "sk rare": lambda: (
        OneHotEncoder(min_frequency=13, handle_unknown="ignore").fit(_mixed()[:35, 4:]),
        _mixed()[:, 4:],
    ),
    "sk filled": lambda: (
        make_pipeline(SimpleImputer(add_indicator=True), PolynomialFeatures()).fit(GAPS),
        GAPS,
    ),
    "sk united": lambda: (
        FeatureUnion([("a", MaxAbsScaler()), ("c", VarianceThreshold())]).fit(X),
        NEW,
    ),
    "sk labels": lambda: (LabelEncoder().fit(WORDS), WORDS),
    "pipe columns": lambda: (make_pipeline(_columns(), nf.PCA(2)).fit(_mixed(), Y), _mixed()),
    "sk columns": lambda: (_columns(remainder="passthrough").fit(X_with_codes()), X_with_codes()),
    "sk columns frame": lambda: (
        ColumnTransformer(
            [("i", make_pipeline(SimpleImputer(), MinMaxScaler()), ["a", "b"]), ("d", "drop", "c")]
        ).fit(_table()),
        _table(),
    ),
    "union": lambda: (
        FeatureUnion([("a", MaxAbsScaler()), ("b", "passthrough"), ("c", nf.PCA(2))]).fit(X),
        NEW,
    ),
    "bins": lambda: (
        make_pipeline(
            KBinsDiscretizer(3, **AVERAGED), nf.PCA(2)
        ).fit(X),
        NEW,
    ),
    "sk ordinal": lambda: (
        OrdinalEncoder().fit(_mixed()[:, 4:]),
        _mixed()[:, 4:],
    ),
    "sk one-hot drop": lambda: (OneHotEncoder(drop="first").fit(_mixed()[:, 4:]), _mixed()[:, 4:]),
    "power": lambda: (make_pipeline(PowerTransformer(), nf.Covariance()).fit(X), NEW),
    "sk quantiles": lambda: (QuantileTransformer(n_quantiles=7).fit(X), NEW),
    "polynomial": lambda: (make_pipeline(PolynomialFeatures(), nf.PCA(2)).fit(X), NEW),
    "select": lambda: (
        make_pipeline(VarianceThreshold(), SelectKBest(k=3), nf.NCA(max_iter=5)).fit(X, Y),
        NEW,
    ),
    "imputer": lambda: (
        make_pipeline(SimpleImputer(add_indicator=True), FunctionTransformer(), nf.PCA(2)).fit(
            GAPS
        ),
        GAPS,
    ),
    "target": lambda: (
        TransformedTargetRegressor(nf.KNeighborsRegressor(), transformer=StandardScaler()).fit(
            X, Y * 2.0
        ),
        NEW,
    ),
}  # fmt: skip


def _plain(name):
    def make():
        method = next(method for method in METHODS if method.name == name)
        model = method.load()(**method.check_params)
        if "random_state" in model.get_params():
            model.set_params(random_state=3)
        if "max_iter" in model.get_params():
            model.set_params(max_iter=max(20, model.get_params().get("output_iter", 20)))
        return model.fit(X, Y), NEW

    return make


BASES = {**{method.name: _plain(method.name) for method in METHODS}, **WAYS}
