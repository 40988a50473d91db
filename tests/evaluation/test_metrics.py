import numpy as np
import pytest
import segmentation_models_pytorch as smp
import torch
from sklearn.metrics import accuracy_score, confusion_matrix, jaccard_score, recall_score
from torch.utils._python_dispatch import TorchDispatchMode

from sdgbench.evaluation import metrics
from sdgbench.records.scores import DomainScore
from sdgbench.task import Classification, Segmentation


@pytest.fixture
def maps():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, (6, 8, 9))  # of 7 classes, 5 and 6 never occur
    guess = np.where(rng.random(truth.shape) < 0.6, truth, rng.integers(0, 6, truth.shape))
    return truth, guess


def test_confusion_and_iou_against_scikit_learn(maps):
    truth, guess = maps
    confusion = metrics.confusion_matrix(truth, guess, 7)
    expected = confusion_matrix(truth.ravel(), guess.ravel(), labels=range(7))
    assert np.array_equal(confusion, expected)
    iou = metrics.iou_per_class(confusion)
    reference = jaccard_score(truth.ravel(), guess.ravel(), labels=range(6), average=None)
    assert iou[:6] == pytest.approx(reference)
    assert np.isnan(iou[6])
    assert metrics.accuracy(confusion) == pytest.approx(
        accuracy_score(truth.ravel(), guess.ravel())
    )
    assert metrics.mean_iou(iou) == pytest.approx(np.mean(reference))


def test_iou_against_segmentation_models(maps):
    truth, guess = (torch.from_numpy(part) for part in maps)
    statistics = smp.metrics.get_stats(guess, truth, mode="multiclass", num_classes=7)
    tp, fp, fn, _ = (part.sum(0).double() for part in statistics)
    confusion = metrics.confusion_matrix(maps[0], maps[1], 7)
    iou = metrics.iou_per_class(confusion)
    assert iou[:6] == pytest.approx((tp / (tp + fp + fn))[:6].numpy())


def test_iou_by_hand():
    confusion = np.array([[3, 1, 0], [2, 4, 0], [0, 0, 0]])
    iou = metrics.iou_per_class(confusion)
    assert iou[0] == 3 / 6
    assert iou[1] == 4 / 7
    assert np.isnan(iou[2])
    assert metrics.mean_iou(iou) == pytest.approx((3 / 6 + 4 / 7) / 2)
    assert metrics.mean_iou(iou, leave_out=0) == pytest.approx(4 / 7)


def test_miou_is_not_a_mean_over_batches(maps):
    truth, guess = maps
    whole = metrics.mean_iou(metrics.iou_per_class(metrics.confusion_matrix(truth, guess, 7)))
    batches = [
        metrics.mean_iou(metrics.iou_per_class(metrics.confusion_matrix(t, g, 7)))
        for t, g in zip(truth, guess, strict=True)
    ]
    assert abs(whole - np.mean(batches)) > 1e-4  # so the difference is one that matters


def test_accuracy_per_class_against_scikit_learn():
    rng = np.random.default_rng(0)
    truth, guess = rng.integers(0, 6, 500), rng.integers(0, 7, 500)
    found = metrics.accuracy_per_class(metrics.confusion_matrix(truth, guess, 7))
    assert found[:6] == pytest.approx(recall_score(truth, guess, average=None, labels=range(6)))
    assert np.isnan(found[6])  # nothing is of this class, however often it is decided
    assert (
        Classification(7).score(metrics.confusion_matrix(truth, guess, 7)).class_accuracy[6] is None
    )


def test_classes_without_a_name_are_called_by_their_number():
    assert Classification(2).class_names == ("class 0", "class 1")
    assert Classification(2, names=("no", "yes")).class_names == ("no", "yes")
    with pytest.raises(ValueError, match="1 names for 2 classes"):
        Classification(2, names=("no",))


def test_scores_of_the_tasks():
    confusion = np.array([[3, 1], [2, 4]])
    assert Classification(2).score(confusion) == DomainScore(
        accuracy=0.7, correct=7, count=10, class_accuracy=[3 / 4, 4 / 6]
    )
    score = Segmentation(2, names=("void", "road"), void=0).score(confusion)
    assert score.iou == [3 / 6, 4 / 7]
    assert score.mIoU == pytest.approx((3 / 6 + 4 / 7) / 2)
    assert score.mIoU_without_void == pytest.approx(4 / 7)
    assert score.pixel_accuracy == 0.7


def test_losses_by_hand():
    logits = torch.log(torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]))
    loss = Classification(3).loss(logits, torch.tensor([0, 1]))
    assert loss.item() == pytest.approx((-np.log(0.7) - np.log(0.1)) / 2, rel=1e-6)
    pixels = logits.T[None, :, :, None]  # one image of 2x1 pixels
    loss = Segmentation(3).loss(pixels, torch.tensor([[[0], [1]]]))
    assert loss.item() == pytest.approx((-np.log(0.7) - np.log(0.1)) / 2, rel=1e-6)


def test_the_loss_of_pixels_has_a_deterministic_kernel_on_a_gpu():
    class Reductions(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "nll_loss2d" in str(func):
                seen.append(args[3])
            return func(*args, **(kwargs or {}))

    seen = []
    with Reductions():
        Segmentation(3).loss(torch.zeros(1, 3, 2, 2), torch.zeros(1, 2, 2, dtype=torch.long))
    assert seen == [0]  # none: torch's mean over pixels (1) is refused by --deterministic
