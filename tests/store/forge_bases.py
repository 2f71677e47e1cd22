"""Small fitted models of every method and of many ways of fitting, with rows to ask them about."""

import numpy as np
from forge_rows import (
    ALIKE,
    APART,
    DISTANCES,
    GAPS,
    GRAPH,
    MANY,
    MANY_KINDS,
    NEW,
    NUMBERS,
    PAIRS,
    SPARSE,
    TABLE,
    VECTORS,
    WORDS,
    X,
    Y,
)
from forge_sklearn import AVERAGED
from forge_sklearn import WAYS as OF_SKLEARN
from sklearn.covariance import OAS
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)

import nearfold as nf
from nearfold import metric_learn
from nearfold.columns.preparation import TablePreparation
from nearfold.registry import METHODS

LDA, LLE, KNN = nf.LinearDiscriminantAnalysis, nf.LocallyLinearEmbedding, nf.KNeighborsClassifier
CLASSICAL = {"init": "classical_mds"}
TWO_OUTPUTS = np.column_stack([Y, Y[::-1]])
LEARNER = nf.LFDA(k=3)


def _bounded_batches():
    nf.set_memory("100KB")  # the scatter of 120 columns does not fit
    try:
        wide = np.tile(X, (1, 30)) + np.arange(120) / 9
        return nf.IncrementalPCA(2).partial_fit(wide[:20]).partial_fit(wide[20:]), wide[:9]
    finally:
        nf.set_memory(None)


NEIGHBOURS = {
    "kNN manhattan": lambda: (KNN(metric="manhattan").fit(X, WORDS), NEW),
    "kNN ball tree": lambda: (nf.KNeighborsRegressor(algorithm="ball_tree", p=3).fit(X, X), NEW),
    "kNN sparse": lambda: (KNN(metric="cosine").fit(SPARSE, Y), SPARSE[:5]),
    "kNN sparse csc": lambda: (KNN().fit(SPARSE.tocsc(), Y), SPARSE[:5]),
    "kNN sparse coo": lambda: (nf.NearestNeighbors(metric="l1").fit(SPARSE.tocoo()), SPARSE[:5]),
    "kNN learned": lambda: (KNN(metric=LEARNER).fit(X, Y), NEW),
    "kNN learned before": lambda: (
        nf.KNeighborsRegressor(metric=nf.LFDA(k=3, n_components=2).fit(X, Y)).fit(X, Y),
        NEW,
    ),
    "kNN outputs": lambda: (KNN(weights="distance").fit(X, TWO_OUTPUTS), NEW),
    "kNN weighted": lambda: (KNN().fit(X, Y > 0, sample_weight=1.0 + Y), NEW),
    "kNN tree": lambda: (nf.NearestNeighbors().fit(MANY), NEW),
    "kNN frame": lambda: (nf.KNeighborsTransformer(mode="connectivity").fit(TABLE), TABLE),
    "kNN gaps": lambda: (nf.NearestNeighbors(metric="nan_euclidean").fit(GAPS), GAPS),
    "precomputed": lambda: (
        nf.NearestNeighbors(metric="precomputed").fit(DISTANCES),
        DISTANCES[:5],
    ),
    "precomputed graph": lambda: (KNN(3, metric="precomputed").fit(GRAPH, Y), GRAPH[:5]),
    "seuclidean": lambda: (
        nf.NearestNeighbors(metric="seuclidean", metric_params={"V": X.var(axis=0)}).fit(X),
        NEW,
    ),
    "mahalanobis": lambda: (
        nf.NearestNeighbors(metric="mahalanobis", metric_params={"VI": np.eye(4)}).fit(X),
        NEW,
    ),
    "minkowski weights": lambda: (
        KNN(metric="minkowski", p=3, metric_params={"w": np.arange(4.0)}).fit(X, Y),
        NEW,
    ),
    "haversine": lambda: (
        nf.NearestNeighbors(metric="haversine", algorithm="ball_tree").fit(X[:, :2] / 4),
        NEW[:, :2] / 4,
    ),
    "radius learned": lambda: (
        nf.RadiusNeighborsRegressor(30.0, metric=LEARNER, weights="distance").fit(X, Y),
        NEW,
    ),
    "radius outputs": lambda: (
        nf.RadiusNeighborsClassifier(2.0, outlier_label=[0, 1]).fit(X, TWO_OUTPUTS),
        NEW,
    ),
    "radius graph": lambda: (
        nf.RadiusNeighborsTransformer(radius=4.0, metric="chebyshev").fit(X),
        NEW,
    ),
}  # fmt: skip
LINEAR = {
    "PCA whitened": lambda: (nf.PCA(0.9, whiten=True).fit(X), NEW),
    "PCA float32": lambda: (nf.PCA(2).fit(X.astype("f4")), NEW.astype("f4")),
    "PCA sparse": lambda: (nf.PCA(2).fit(SPARSE), SPARSE[:5]),
    "PCA mle": lambda: (nf.PCA("mle").fit(X), NEW),
    "PCA wide": lambda: (nf.PCA(2, svd_solver="randomized", random_state=0).fit(X[:3]), NEW),
    "PCA pandas": lambda: (nf.PCA(2).set_output(transform="pandas").fit(TABLE), TABLE),
    "IPCA batches": lambda: (nf.IncrementalPCA(2).partial_fit(X[:20]).partial_fit(X[20:]), NEW),
    "IPCA whitened": lambda: (nf.IncrementalPCA(whiten=True, batch_size=9).fit(X), NEW),
    "IPCA float32": lambda: (nf.IncrementalPCA(2).partial_fit(X.astype("f4")), NEW.astype("f4")),
    "IPCA bounded": _bounded_batches,
    "LDA eigen": lambda: (LDA(solver="eigen", shrinkage="auto").fit(X, WORDS), NEW),
    "LDA lsqr": lambda: (LDA(solver="lsqr", shrinkage=0.2, priors=[0.5, 0.3, 0.2]).fit(X, Y), NEW),
    "LDA binary": lambda: (LDA(store_covariance=True, n_components=1).fit(X, Y > 0), NEW),
    "LDA batches": lambda: (LDA().partial_fit(X[:30], Y[:30], classes=[0, 1, 2]), NEW),
    "LDA estimator": lambda: (LDA(solver="eigen", covariance_estimator=OAS()).fit(TABLE, Y), TABLE),
}  # fmt: skip
EMBEDDINGS = {
    "KPCA inverse": lambda: (nf.KernelPCA(2, kernel="rbf", fit_inverse_transform=True).fit(X), NEW),
    "KPCA low rank": lambda: (nf.KernelPCA(2, kernel="rbf", gamma=0.05, low_rank=12).fit(X), NEW),
    "KPCA low rank back": lambda: (
        nf.KernelPCA(2, kernel="rbf", low_rank=0.5, fit_inverse_transform=True).fit(X),
        NEW,
    ),
    "KPCA poly": lambda: (nf.KernelPCA(3, kernel="poly", degree=2, gamma=0.1).fit(X), NEW),
    "KPCA sigmoid": lambda: (nf.KernelPCA(2, kernel="sigmoid", gamma=0.01).fit(X), NEW),
    "KPCA cosine": lambda: (nf.KernelPCA(2, kernel="cosine").fit(X.astype("f4")), NEW),
    "KPCA sparse": lambda: (nf.KernelPCA(2, kernel="rbf").fit(SPARSE), SPARSE[:5]),
    "KPCA precomputed": lambda: (nf.KernelPCA(2, kernel="precomputed").fit(X @ X.T), NEW @ X.T),
    "MDS nonmetric": lambda: (nf.MDS(metric_mds=False, **CLASSICAL).fit(X), NEW),
    "MDS landmarks": lambda: (nf.MDS(n_landmarks=12, **CLASSICAL).fit(X), NEW),
    "MDS nonmetric landmarks": lambda: (
        nf.MDS(metric_mds=False, metric="manhattan", n_landmarks=12, **CLASSICAL).fit(X),
        NEW,
    ),
    "MDS precomputed": lambda: (
        nf.MDS(metric="precomputed", **CLASSICAL).fit(DISTANCES),
        DISTANCES[:5],
    ),
    "MDS learned": lambda: (nf.MDS(metric=LEARNER, **CLASSICAL).fit(X, Y), NEW),
    "CMDS blocks": lambda: (nf.ClassicalMDS(metric="cityblock", n_landmarks=12).fit(X), NEW),
    "CMDS manhattan": lambda: (nf.ClassicalMDS(3, metric="manhattan").fit(X), NEW),
    "CMDS precomputed": lambda: (
        nf.ClassicalMDS(metric="precomputed").fit(DISTANCES),
        DISTANCES[:5],
    ),
    "CMDS learned": lambda: (nf.ClassicalMDS(metric=LEARNER).fit(X, Y), NEW),
    "Isomap landmarks": lambda: (nf.Isomap(n_landmarks=12, n_neighbors=8).fit(X), NEW),
    "Isomap pieces": lambda: (nf.Isomap(disconnected="each").fit(APART), NEW),
    "Isomap largest": lambda: (nf.Isomap(disconnected="largest").fit(APART), NEW),
    "Isomap bridged": lambda: (nf.Isomap(disconnected="bridge", n_components=3).fit(APART), NEW),
    "Isomap landmark pieces": lambda: (
        nf.Isomap(n_landmarks=8, disconnected="each").fit(APART),
        NEW,
    ),
    "Isomap radius": lambda: (nf.Isomap(n_neighbors=None, radius=9.0).fit(X), NEW),
    "Isomap regressor": lambda: (nf.Isomap(extension="regressor").fit(X), NEW),
    "Isomap own regressor": lambda: (
        nf.Isomap(extension="regressor", regressor=nf.KNeighborsRegressor(3)).fit(X),
        NEW,
    ),
    "Isomap cosine": lambda: (nf.Isomap(metric="cosine").fit(X), NEW),
    "Isomap learned": lambda: (nf.Isomap(metric=LEARNER).fit(X, Y), NEW),
    "Isomap precomputed": lambda: (nf.Isomap(metric="precomputed").fit(DISTANCES), DISTANCES[:5]),
    "Isomap graph": lambda: (nf.Isomap(metric="precomputed").fit(GRAPH), GRAPH[:5]),
    "Isomap sparse": lambda: (nf.Isomap().fit(SPARSE), SPARSE[:5]),
    "LTSA": lambda: (LLE(method="ltsa", n_neighbors=8).fit(X), NEW),
    "LLE modified": lambda: (LLE(method="modified", n_neighbors=9).fit(X.astype("f4")), NEW),
    "LLE hessian": lambda: (LLE(method="hessian", n_neighbors=9).fit(X), NEW),
    "LLE pieces": lambda: (LLE(disconnected="each").fit(APART), NEW),
    "LLE largest": lambda: (LLE(disconnected="largest").fit(APART), NEW),
}  # fmt: skip
LEARNERS = {
    "MMC pairs": lambda: (nf.MMC().fit(PAIRS, ALIKE), NEW),
    "MMC diagonal": lambda: (nf.MMC(diagonal=True).fit(PAIRS, ALIKE), NEW),
    "MMC ids": lambda: (nf.MMC(preprocessor=X).fit(NUMBERS, ALIKE), NEW),
    "ITML pairs": lambda: (nf.ITML(prior=np.eye(4)).fit(PAIRS, ALIKE), NEW),
    "SDML pairs": lambda: (nf.SDML(prior="covariance", rank=2).fit(PAIRS, ALIKE), NEW),
    "LSML tuples": lambda: (
        nf.LSML().fit(np.stack([X[:12], X[12:24], X[24:], X[6:18]], axis=1)),
        NEW,
    ),
    "SCML tuples": lambda: (
        nf.SCML(max_iter=500, random_state=0).fit(np.stack([X[:12], X[12:24], X[24:]], axis=1)),
        NEW,
    ),
    "RCA chunks": lambda: (nf.RCA(n_components=2).fit(TABLE, chunks=Y), TABLE),
    "NCA stochastic": lambda: (
        nf.NCA(2, solver="stochastic", n_epochs=2, random_state=np.random.RandomState(4)).fit(
            X, WORDS
        ),
        NEW,
    ),
    "NCA of metric-learn": lambda: (
        metric_learn.NCA(init=np.eye(4)[:2], n_components=2, max_iter=5).fit(X, Y),
        NEW,
    ),
    "LMNN ids": lambda: (nf.LMNN(preprocessor=X, max_iter=20, rank=0.9).fit(np.arange(36), Y), NEW),
    "Covariance frame": lambda: (nf.Covariance().fit(TABLE), TABLE),
    "WeightedEuclidean": lambda: (nf.WeightedEuclidean(penalty=0.1).fit(X, Y), NEW),
}
PIPELINES = {
    "pipe PCA": lambda: (make_pipeline(StandardScaler(), nf.PCA(2)).fit(X), NEW),
    "pipe kNN": lambda: (make_pipeline(RobustScaler(), nf.PCA(3), KNN(3)).fit(X, Y), NEW),
    "pipe NCA": lambda: (
        make_pipeline(make_pipeline(StandardScaler(), nf.NCA(2, max_iter=5)), KNN(3)).fit(X, Y),
        NEW,
    ),
    "pipe table": lambda: (
        make_pipeline(TablePreparation(missing="mean"), MaxAbsScaler(), nf.PCA(2)).fit(TABLE),
        TABLE,
    ),
    "table dropped": lambda: (
        TablePreparation(missing="drop", columns=["b", "a"]).fit(TABLE),
        TABLE,
    ),
    "table array": lambda: (TablePreparation(missing="zero").fit(GAPS), GAPS),
    "table numbers": lambda: (TablePreparation(numbers="scale").fit(TABLE), TABLE),
    "table float32": lambda: (
        TablePreparation().fit(TABLE.astype("float32")),
        TABLE.astype("float32"),
    ),
    "table range": lambda: (TablePreparation(numbers="range").fit(MANY_KINDS), MANY_KINDS),
    "table one-hot": lambda: (TablePreparation(numbers="scale").fit(MANY_KINDS), MANY_KINDS),
    "table target-coded": lambda: (
        TablePreparation(numbers="scale", categories="target").fit(MANY_KINDS, Y),
        MANY_KINDS,
    ),
    "table dates": lambda: (TablePreparation(columns=["d"]).fit(MANY_KINDS), MANY_KINDS),
    "table embedding": lambda: (
        make_pipeline(TablePreparation(numbers="scale"), nf.PCA(2)).fit(VECTORS),
        VECTORS,
    ),
    "pipe many kinds": lambda: (
        make_pipeline(TablePreparation(numbers="scale"), nf.PCA(2), KNN(3)).fit(MANY_KINDS, Y),
        MANY_KINDS,
    ),
    "union": lambda: (
        FeatureUnion([("a", MaxAbsScaler()), ("b", "passthrough"), ("c", nf.PCA(2))]).fit(X),
        NEW,
    ),
    "bins": lambda: (make_pipeline(KBinsDiscretizer(3, **AVERAGED), nf.PCA(2)).fit(X), NEW),
    "power": lambda: (make_pipeline(PowerTransformer(), nf.Covariance()).fit(X), NEW),
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


BASES = {
    **{method.name: _plain(method.name) for method in METHODS},
    **NEIGHBOURS,
    **LINEAR,
    **EMBEDDINGS,
    **LEARNERS,
    **PIPELINES,
    **OF_SKLEARN,
}
