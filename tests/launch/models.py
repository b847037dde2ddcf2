"""Configs that more than one test needs."""


def one_wide_kernel(inputs, units, ranks, batch_size):
    """8 random rows and a kernel of inputs x units, its columns split over `ranks` (-1: all of the job)."""
    return f"""\
name: large
model:
  inputs: {{x: {{shape: [{inputs}]}}}}
  layers:
    - Dense: {{name: wide, units: {units}, use_bias: false}}
distribution:
  ModelParallel:
    mesh: {{shape: [{ranks}], axis_names: [model]}}
    batch_dim_name: null
    layout_map:
      wide/kernel: [null, model]
compile: {{optimizer: sgd, loss: mse}}
data:
  train: {{random: {{samples: 8}}}}
fit: {{batch_size: {batch_size}}}
"""
