"""PyTorch eager on the CPU, the model of mlp.yaml; under torchrun DistributedDataParallel over gloo. Prints milliseconds a step, the best
epoch's mean."""
import os
import time

import torch
import torch.nn as nn

world = int(os.environ.get("WORLD_SIZE", 1))
rank = int(os.environ.get("RANK", 0))
torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // world))
torch.manual_seed(0)
if world > 1:
    torch.distributed.init_process_group("gloo")
rows, steps = 256 // world, 40
model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 10))
if world > 1:
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-7)
x, y = torch.randn(rows * steps, 1024), torch.randn(rows * steps, 10)


def step(i):
    part = slice(i * rows, (i + 1) * rows)
    optimizer.zero_grad(set_to_none=True)
    nn.functional.mse_loss(model(x[part]), y[part]).backward()
    optimizer.step()


for i in range(3):
    step(i)
best = 1e9
for _ in range(3):
    start = time.time()
    for i in range(steps):
        step(i)
    best = min(best, (time.time() - start) / steps)
if rank == 0:
    print(f"{best * 1e3:.3f}")
if world > 1:
    torch.distributed.destroy_process_group()
