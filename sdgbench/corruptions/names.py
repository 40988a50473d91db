"""The names of CIFAR-10-C's corruptions, and the groups of the M-ADA paper's tables."""

STANDARD_15 = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
)


EXTRA_4 = ("speckle_noise", "gaussian_blur", "spatter", "saturate")


ALL_19 = STANDARD_15 + EXTRA_4


# The groups of M-ADA's tables: brightness counts as digital there, and spatter too.
GROUPS = {
    "weather": ("fog", "snow", "frost"),
    "blur": ("zoom_blur", "defocus_blur", "glass_blur", "gaussian_blur", "motion_blur"),
    "noise": ("speckle_noise", "shot_noise", "impulse_noise", "gaussian_noise"),
    "digital": (
        "jpeg_compression",
        "pixelate",
        "spatter",
        "elastic_transform",
        "brightness",
        "saturate",
        "contrast",
    ),
}
SEVERITIES = (1, 2, 3, 4, 5)
