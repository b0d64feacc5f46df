"""Two gloo processes equal one: DDP, FSDP2's DTensors, a two-dimensional mesh."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from fallline.convex import LSmooth
from fallline.optim import (
    GeneralizedSmoothAGD,
    MuonAdam,
    MuonAdamMomo,
    MuonMaxMomo,
    PolarGrad,
)

STEPS = 5
PRESETS = {
    "muonmax-momo": lambda params, **o: MuonMaxMomo(params, lr=0.05, **o),
    "muonmax-momo-stale": lambda params, **o: MuonMaxMomo(params, lr=0.05, nuclear="stale", **o),
    "muonmax-momo-frobenius": lambda params, **o: MuonMaxMomo(
        params, lr=0.05, nuclear="frobenius", f_star="auto", **o
    ),
    "muon-adam-momo": lambda params, **o: MuonAdamMomo(params, lr=0.05, **o),
    "polargrad": lambda params, **o: PolarGrad(params, lr=0.05, **o),
    "muon-adam": lambda params, **o: MuonAdam(params, lr=0.05, **o),
    "muonmax-momo-corrected": lambda params, **o: MuonMaxMomo(
        params, lr=0.05, nuclear="stale", momentum_init="corrected", **o
    ),
}


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3)
    ).double()


def batch(step, rank=None):
    g = torch.Generator().manual_seed(step)
    x = torch.randn(8, 6, dtype=torch.float64, generator=g)
    y = x[:, :3].roll(1, 1) * x[:, 3:]
    half = slice(None) if rank is None else slice(4 * rank, 4 * rank + 4)
    return x[half], y[half]


def train(model, opt, rank=None, steps=range(STEPS)):
    for t in steps:
        x, y = batch(t, rank)
        opt.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        opt.step(loss=loss)


def single(name):
    model = make_model()
    opt = PRESETS[name](model.named_parameters())
    train(model, opt)
    return {k: v.detach() for k, v in model.named_parameters()}, float(opt.last.eta)


def _ddp(rank):
    result = {}
    for name in PRESETS:
        model = nn.parallel.DistributedDataParallel(make_model())
        opt = PRESETS[name](model.named_parameters(), process_group=dist.group.WORLD)
        train(model, opt, rank)
        result[name] = (
            {k: v.detach() for k, v in model.module.named_parameters()},
            float(opt.last.eta),
        )
    return result


def _fsdp(rank):
    result = {}
    for name in PRESETS:
        model = make_model()
        fully_shard(model[2])
        fully_shard(model)
        opt = PRESETS[name](model.named_parameters(), process_group=dist.group.WORLD)
        train(model, opt, rank)
        full = {k: v.full_tensor().detach() for k, v in model.named_parameters()}
        result[name] = (full, float(opt.last.eta))
    return result


def _hybrid_mesh(rank):
    """One replica of two shards, and two replicas of one: every matrix on every rank."""
    result = {}
    for shape in [(1, 2), (2, 1)]:
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard"))
        model = make_model()
        fully_shard(model, mesh=mesh)
        opt = PRESETS["muonmax-momo"](model.named_parameters(), process_group=dist.group.WORLD)
        train(model, opt, rank)
        full = {k: v.full_tensor().detach() for k, v in model.named_parameters()}
        result[shape] = (full, float(opt.last.eta))
    return result


def polar_in_bfloat16(model, rank=None, group=None):
    opt = MuonAdam(
        model.named_parameters(), lr=0.01, polar_dtype=torch.bfloat16, process_group=group
    )
    for t in range(3):
        x, y = (part.float() for part in batch(t, rank))
        opt.zero_grad()
        (model(x) - y).square().mean().backward()
        opt.step()


def _polar_of_another_dtype(rank):
    model = make_model().float()
    fully_shard(model)
    polar_in_bfloat16(model, rank, dist.group.WORLD)
    return {k: v.full_tensor().detach() for k, v in model.named_parameters()}


def descend(mode, rank=None, *, shard=False):
    """Least squares by GeneralizedSmoothAGD, with all rows or this rank's half of them."""
    torch.manual_seed(0)
    model = nn.Linear(6, 3).double()
    if shard:
        fully_shard(model)
    opt = GeneralizedSmoothAGD(model.parameters(), LSmooth(3.0), radius=9.0, mode=mode)
    x, y = batch(0, rank)
    for _ in range(12):
        opt.zero_grad()
        (model(x) - y).square().mean().backward()
        opt.step()
    return {k: (v.full_tensor() if shard else v).detach() for k, v in model.named_parameters()}


def _generalized_smooth_agd(rank):
    return {mode: descend(mode, rank, shard=True) for mode in ("schedule", "adaptive")}


def _nonfinite_on_one_rank(rank):
    model = make_model()
    fully_shard(model)
    opt = PRESETS["muonmax-momo"](model.named_parameters(), process_group=dist.group.WORLD)
    x, y = batch(0, rank)
    loss = (model(x) - y).square().mean()
    loss.backward()
    if rank == 1:
        model[0].weight.grad.to_local()[0, 0] = float("nan")
    try:
        opt.step(loss=loss)
    except FloatingPointError as error:
        return str(error)
    return "moved"


def _distributed_checkpoint(rank):
    def build():
        model = make_model()
        fully_shard(model)
        return model, PRESETS["muonmax-momo-stale"](
            model.named_parameters(), process_group=dist.group.WORLD
        )

    model, opt = build()
    train(model, opt, rank, range(3))
    options = StateDictOptions(full_state_dict=True)
    saved = get_optimizer_state_dict(model, opt, options=options)
    weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
    again, resumed = build()
    again.load_state_dict(weights)
    resumed.set_loss(0.0)  # torch takes an empty step to create the state it then fills
    set_optimizer_state_dict(again, resumed, saved, options=options)
    train(model, opt, rank, range(3, 6))
    train(again, resumed, rank, range(3, 6))
    pairs = zip(model.parameters(), again.parameters())
    return all(torch.equal(a.to_local(), b.to_local()) for a, b in pairs)


WORKERS = (
    _ddp,
    _fsdp,
    _hybrid_mesh,
    _polar_of_another_dtype,
    _generalized_smooth_agd,
    _nonfinite_on_one_rank,
    _distributed_checkpoint,
)


def _entry(rank, folder):
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    try:
        torch.save({worker.__name__: worker(rank) for worker in WORKERS}, f"{folder}/{rank}.pt")
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Run everything once in two processes, because starting them costs more than the runs."""
    folder = tmp_path_factory.mktemp("gloo")
    torch.multiprocessing.start_processes(_entry, (str(folder),), nprocs=2, start_method="spawn")
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("worker", ["_ddp", "_fsdp"])
def test_two_processes_equal_one_on_the_union_batch(ranks, worker, name):
    expected, eta = single(name)
    for rank in ranks:
        params, found_eta = rank[worker][name]
        assert found_eta == pytest.approx(eta, rel=1e-6)
        for key, value in expected.items():
            torch.testing.assert_close(params[key], value, rtol=1e-6, atol=1e-8)
    for key in expected:  # not close: the same, or ranks would drift apart
        assert torch.equal(ranks[0][worker][name][0][key], ranks[1][worker][name][0][key])


@pytest.mark.parametrize("mode", ["schedule", "adaptive"])
def test_sharded_vectors_descend_as_whole_ones(ranks, mode):
    expected = descend(mode)
    for rank in ranks:
        for key, value in expected.items():
            found = rank["_generalized_smooth_agd"][mode][key]
            torch.testing.assert_close(found, value, rtol=1e-9, atol=1e-12)


def test_a_two_dimensional_mesh_equals_one_process(ranks):
    expected, eta = single("muonmax-momo")
    for rank in ranks:
        for params, found_eta in rank["_hybrid_mesh"].values():
            assert found_eta == pytest.approx(eta, rel=1e-6)
            for key, value in expected.items():
                torch.testing.assert_close(params[key], value, rtol=1e-6, atol=1e-8)


def test_the_polar_may_run_in_another_dtype_than_the_parameters(ranks):
    model = make_model().float()
    polar_in_bfloat16(model)
    for rank in ranks:
        for key, value in model.named_parameters():
            found = rank["_polar_of_another_dtype"][key]
            # Three moves of 0.1 along factors that bfloat16 rounds at 2^-8.
            torch.testing.assert_close(found, value.detach(), rtol=0, atol=3 * 0.1 * 2**-7)


def test_ranks_agree_mesh_by_mesh_in_the_order_of_the_parameters(monkeypatch):
    """Ranks hash meshes differently; an order that depends on the hash is a deadlock."""
    from fallline.optim import _sharding

    class Mesh:
        ndim = 1

        def __init__(self, hashed):
            self.hashed = hashed

        def __hash__(self):
            return self.hashed

        def get_group(self, _):
            return self.hashed

    reduced = []
    monkeypatch.setattr(_sharding, "is_sharded", lambda _: True)
    monkeypatch.setattr(dist, "all_reduce", lambda t, op, group: reduced.append(group))
    owners = [SimpleNamespace(device_mesh=Mesh(hashed)) for hashed in (5, 1, 3)]
    assert _sharding.all_ranks_agree(torch.tensor(True), owners)
    assert reduced == [5, 1, 3]


def test_trouble_on_one_rank_stops_all(ranks):
    first, second = (rank["_nonfinite_on_one_rank"] for rank in ranks)
    assert "another rank" in first
    assert "0.weight is not finite" in second


def test_torchs_distributed_checkpoint_resumes(ranks):
    assert [rank["_distributed_checkpoint"] for rank in ranks] == [True, True]
