"""Makes configs/data/digits_*.npy: the handwritten digits of the UCI machine learning repository (E. Alpaydin, C. Kaynak, "Optical
Recognition of Handwritten Digits", 1998, CC BY 4.0), as scikit-learn hands out its test part: 1,797 images of 8 x 8, values 0 to 16.

usage: make_digits.py [X.npy Y.npy]    the arrays themselves instead of sklearn.datasets.load_digits
"""
import pathlib
import sys

import numpy as np

if len(sys.argv) == 3:
    x, y = np.load(sys.argv[1]), np.load(sys.argv[2])
else:
    from sklearn.datasets import load_digits

    digits = load_digits()
    x, y = digits.images, digits.target
x = x.reshape(len(x), 64).astype(np.uint8)
y = y.astype(np.int32)

# Neighbours in the original order come from one writer: shuffled before the split, always in the same way.
order = np.random.default_rng(0).permutation(len(x))
folder = pathlib.Path(__file__).resolve().parent.parent / "configs" / "data"
folder.mkdir(parents=True, exist_ok=True)
validation = 360
for name, rows in [("validation", order[:validation]), ("train", order[validation:])]:
    np.save(folder / f"digits_{name}_x.npy", x[rows])
    np.save(folder / f"digits_{name}_y.npy", y[rows])
