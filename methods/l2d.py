"""L2D: learning to diversify, by a style module that the task network works against."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sdgbench.errors import UserError
from sdgbench.method import Around, Method, Uniform, param
from sdgbench.methods._ascent import without_weight_gradients
from sdgbench.methods._heads import feature_width
from sdgbench.methods._l2d_losses import club, conditional_mmd, negative_likelihood
from sdgbench.methods._losses import supervised_contrast
from sdgbench.registry import register_method

CODE = 512  # width of the latent code (code)
SAMPLING = 0.2  # factor of the code's standard deviation in training (code)
DROPOUT, NOISE = 0.2, 0.01  # of the style module (code)


@register_method(
    "l2d",
    title="L2D",
    paper="Wang et al., Learning to Diversify for Single Domain Generalization, ICCV 2021",
    skips={"segmentation": "its latent code is one vector per image"},
)
class L2D(Method):
    """Train on images in random styles, and learn styles that share little with the image.

    The network gets a latent code between features and classes. Each step first updates network
    and code, then the style module. strength=0 is ERM.
    """

    families: ClassVar = ("channels", "hue", "invert")

    @dataclass(frozen=True)
    class Params:
        """Published values (released code, for PACS); ``per_dataset`` has a later code's."""

        strength: float = param(
            0.6, "share of the image in another style (code); 0: ERM", search=Uniform(0.1, 1.0)
        )
        kernel_sizes: tuple[int, ...] = param((5, 9, 13, 17), "of the style module (code)")
        contrast: float = param(
            1.0, "weight of the supervised contrastive loss (code)", search=Around(10)
        )
        temperature: float = param(0.07, "temperature of the contrastive loss (code)")
        likelihood: float = param(
            1.0, "weight of the likelihood of the other style's code (code)", search=Around(10)
        )
        style_lr: float = param(
            0.005, "SGD learning rate of the style module (code)", search=Around(10)
        )
        club: float = param(
            0.1, "weight of the mutual information in the module's loss (code)", search=Around(10)
        )

        def __post_init__(self) -> None:
            if not 0 <= self.strength <= 1 or self.temperature <= 0:
                raise ValueError("l2d needs strength from 0 to 1 and temperature above 0")
            if not self.kernel_sizes or min(self.kernel_sizes) < 1:
                raise ValueError("l2d needs kernel_sizes of 1 or more, such as 5,9,13,17")

    per_dataset: ClassVar = {
        "digits": {"kernel_sizes": (3, 5)},
        "cifar10c": {"kernel_sizes": (3, 5)},
    }

    def setup(self) -> None:
        """Add the latent code with its classifier, and the style module with its optimiser."""
        p, device = self.params, self.device.torch
        if not p.strength:
            return
        if max(p.kernel_sizes) > min(self.recipe.image_size):
            raise UserError(
                f"l2d.kernel_sizes has {max(p.kernel_sizes)}, but the images have "
                f"{min(self.recipe.image_size)} pixels. Use smaller ones."
            )
        self.code = Code(feature_width(self), self.task.classes).to(device)
        self.optimizer.add_param_group({"params": self.code.parameters()})
        self.style = Style(self.recipe.image_size, p.kernel_sizes).to(device)
        learned = [weight for weight in self.style.parameters() if weight.requires_grad]
        self.style_optimizer = torch.optim.SGD(learned, p.style_lr)

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """Update network and code on images in a random style, then the style module."""
        if not self.params.strength:
            return self.optimise(self.task.loss(self.network(x), y))
        loss = self.optimise(self.task_loss(x, y))
        with without_weight_gradients(self.network, self.code):
            self.optimise(self.style_loss(x, y), self.style_optimizer)
        return loss

    def task_loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Classify both styles, contrast the classes, and make the other style's code likely."""
        p, count = self.params, len(x)
        with torch.no_grad():
            drawn = self.device.prepare_module(Convolutions(p.kernel_sizes))
            x_plus = self.restyle(x, drawn, torch.randn(len(p.kernel_sizes) + 1))
        mu, logvar, z = self.encode(torch.cat([x_plus, x]))
        both = y.repeat(2)
        loss: Tensor = self.task.loss(self.code.classifier(z), both)
        loss = loss + p.contrast * supervised_contrast(z, both, p.temperature)
        loss = loss + p.likelihood * negative_likelihood(mu[count:], logvar[count:], z[:count])
        return loss

    def style_loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Keep each class's codes where they are, and share little else with the image."""
        p, count = self.params, len(x)
        x_plus = self.restyle(x, self.style.fixed, torch.ones(len(p.kernel_sizes) + 1))
        mu, logvar, z = self.encode(torch.cat([x_plus, x]))
        distance = conditional_mmd(z[:count], z[count:], y, self.task.classes)
        other = self.device.to_device(torch.randperm(count))
        information = club(mu[count:], logvar[count:], z[:count], other)
        loss: Tensor = distance + p.club * information
        return loss

    def restyle(self, x: Tensor, convolutions: "Convolutions", weights: Tensor) -> Tensor:
        """Mix the images with their other style; the module sees them as the network does."""
        share: float = self.params.strength
        with self.device.no_autocast():
            normal = (x - self.network.mean) / self.network.std
            styled: Tensor = self.style(normal, convolutions, weights.tolist())
            return share * styled.sigmoid() + (1 - share) * x

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, logarithm of the variance and a sample of the code of each image, in float32."""
        mu, logvar = (value.float() for value in self.code(self.network.features(x)))
        return mu, logvar, mu + SAMPLING * (logvar / 2).exp() * torch.randn_like(mu)

    def predict(self, x: Tensor) -> Tensor:
        """Logits of the code's mean."""
        if not self.params.strength:
            return super().predict(x)
        logits: Tensor = self.code.classifier(self.code(self.network.features(x))[0])
        return logits

    def inference_modules(self) -> Sequence[nn.Module]:
        """The network without its classifier, the mean of the code, and the code's classifier."""
        if not self.params.strength:
            return [self.network]
        return [*self.network.embedding_modules(), self.code.mu, self.code.classifier]


class Code(nn.Module):
    """A normal distribution of latent codes for each image, and their classifier."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.mu, self.logvar = nn.Linear(features, CODE), nn.Linear(features, CODE)
        self.classifier = nn.Linear(CODE, classes)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the variance."""
        return F.leaky_relu(self.mu(z)), F.relu(self.logvar(z))


class Convolutions(nn.Module):
    """Random convolutions: one of colours, and a pair down and up for each size."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.colour = nn.Conv2d(3, 3, 1)
        self.down = nn.ModuleList(nn.Conv2d(3, 3, size) for size in sizes)
        self.up = nn.ModuleList(nn.ConvTranspose2d(3, 3, size) for size in sizes)
        self.requires_grad_(False)


class Style(nn.Module):
    """Changes colours, and the statistics of convolved images by learned maps."""

    def __init__(self, image_size: tuple[int, int], sizes: Sequence[int]) -> None:
        super().__init__()
        shapes = [(3, *(side - size + 1 for side in image_size)) for size in sizes]
        self.scale = nn.ParameterList(1 + 0.1 * torch.randn(shape) for shape in shapes)
        self.shift = nn.ParameterList(0.1 * torch.randn(shape) for shape in shapes)
        self.noise = nn.Parameter(torch.zeros(1))
        self.fixed = Convolutions(sizes)  # those with which the maps are learned

    def forward(self, x: Tensor, convolutions: Convolutions, weights: Sequence[float]) -> Tensor:
        """The weighted mean of all branches."""
        x = x + NOISE * self.noise * torch.randn_like(x)
        branches = [F.dropout(convolutions.colour(x), DROPOUT).tanh()]
        layers = zip(convolutions.down, convolutions.up, self.scale, self.shift, strict=True)
        for down, up, scale, shift in layers:
            branches.append(up(F.instance_norm(down(x)) * scale + shift).tanh())
        total = sum(weight * branch for weight, branch in zip(weights, branches, strict=True))
        assert isinstance(total, Tensor)
        return total / sum(weights)
