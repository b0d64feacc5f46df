"""Where users call the optimizer: Trainer, accumulation, mixed precision, compiled, resumed."""

import copy
import shutil
import warnings

import pytest
import torch
from torch import nn
from torch.nn import Parameter

from fallline.optim import Momo, MuonAdam, MuonAdamMomo, MuonMax, MuonMaxMomo, SignGD


def make_model(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)
    ).to(dtype)


def make_data(n=32, seed=1):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=g)
    return x, torch.stack([x[:, 0] * x[:, 1], x[:, 2]], dim=1)


def fit(model, opt, steps, scheduler=None):
    x, y = make_data()
    for _ in range(steps):
        opt.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        opt.step(loss=loss)
        if scheduler is not None:
            scheduler.step()
    return loss.detach()


def test_accumulated_gradients_with_the_mean_loss_are_the_whole_batch():
    x, y = make_data()
    whole, parts = make_model(torch.float64), make_model(torch.float64)
    x, y = x.double(), y.double()
    one, other = MuonMaxMomo(whole, lr=0.05), MuonMaxMomo(parts, lr=0.05)
    for _ in range(5):
        one.zero_grad()
        loss = (whole(x) - y).square().mean()
        loss.backward()
        one.step(loss=loss)
        other.zero_grad()
        total = 0.0
        for rows in (slice(0, 16), slice(16, 32)):
            micro = (parts(x[rows]) - y[rows]).square().mean() / 2
            micro.backward()
            total += micro.detach()
        other.step(loss=total)
    for a, b in zip(whole.parameters(), parts.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_the_schedule_moves_the_cap_only():
    model = make_model()
    opt = MuonMaxMomo(model, lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda t: 1.0 / (1 + t))
    for t in range(4):
        fit(model, opt, 1, scheduler)
        assert float(opt.last.eta) == pytest.approx(1e-3 / (1 + t))


@pytest.mark.parametrize("make", [MuonMaxMomo, MuonAdam, Momo])
def test_a_tensor_learning_rate_is_the_same(make):
    one, other = make_model(), make_model()
    fit(one, make(one.named_parameters(), lr=0.01), 4)
    lr = torch.tensor(0.01)
    opt = make(other.named_parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda t: 1.0)
    fit(other, opt, 4, scheduler)
    for a, b in zip(one.parameters(), other.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_a_scaler_that_finds_inf_skips_the_step():
    model = make_model()
    opt = MuonMaxMomo(model, lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
    x, y = make_data()
    before = copy.deepcopy(model.state_dict())
    loss = (model(x) - y).square().mean()
    scaler.scale(loss * 1e20).backward()
    opt.set_loss(loss)
    scaler.step(opt)
    scaler.update()
    assert opt.last is None
    for key, value in model.state_dict().items():
        assert torch.equal(before[key], value)


def test_autocast_training():
    model = make_model()
    opt = MuonMaxMomo(model, lr=0.02, weight_decay=0.0)
    x, y = make_data()
    losses = []
    for _ in range(30):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = (model(x) - y).square().mean()
        loss.backward()
        opt.step(loss=loss)
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("make", [MuonMaxMomo, MuonAdamMomo])
def test_parameters_of_several_dtypes_share_one_dual(make):
    torch.manual_seed(0)
    model = nn.ModuleDict({"low": nn.Linear(6, 6).bfloat16(), "high": nn.Linear(6, 6).double()})
    opt = make(model.named_parameters(), lr=0.01)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    opt.step(loss=1.0)
    assert len(opt.last.layer_duals) == 4
    assert opt.last.G.dtype == torch.float64
    fresh = [torch.ones(s, dtype=torch.float64) for s in [(6, 6), (6,)] * 2]
    again = [Parameter(torch.zeros_like(g)) for g in fresh]
    reference = make((again[::2], again[1::2]), lr=0.01)
    for p, g in zip(again, fresh):
        p.grad = g
    reference.step(loss=1.0)
    assert float(opt.last.G) == pytest.approx(float(reference.last.G), rel=1e-2)


# Inductor's own import uses what torch has since deprecated.
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a C++ compiler")
def test_the_step_compiles_with_inductor():
    torch._dynamo.reset()
    x, y = make_data()

    def run(compiled):
        model = make_model()
        opt = MuonMaxMomo(model, lr=0.02)

        def step(loss):
            opt.step(loss=loss)

        if compiled:
            step = torch.compile(step)
        for _ in range(4):
            opt.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            step(loss.detach())
        return [p.detach() for p in model.parameters()]

    for a, b in zip(run(False), run(True)):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_checkpoint_holds_the_scalars_of_the_model_unrounded():
    model = make_model(torch.bfloat16)
    opt = MuonMaxMomo(model, lr=0.01, f_star="auto", nuclear="stale")
    x, y = (t.bfloat16() for t in make_data())
    for _ in range(3):
        opt.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        opt.step(loss=loss)
    again = MuonMaxMomo(make_model(torch.bfloat16), lr=0.01, f_star="auto", nuclear="stale")
    again.load_state_dict(opt.state_dict())
    scalars = 0
    for key, state in opt.state_dict()["state"].items():
        for name, value in state.items():
            found = again.state_dict()["state"][key][name]
            if name in ("grad_dot_w", "nuclear_norm", "loss_avg", "lower_bound"):
                assert value.dtype == found.dtype == torch.float32
                assert torch.equal(value, found)
                assert value is not found
                scalars += 1
    assert scalars == 6 + 2 + 2
    assert again.state_dict()["state"][0]["truncated_steps"] == 3


def test_a_run_may_go_on_with_truncation_switched_on():
    """MuonMax's checkpoint in MuonMax-Momo: its norms and averages hold, the rest starts here."""
    model = make_model()
    opt = MuonMax(model.named_parameters(), lr=0.01)
    fit(model, opt, 5)
    again = MuonMaxMomo(model.named_parameters(), lr=0.01)
    again.load_state_dict(opt.state_dict())
    loss = fit(model, again, 1)
    assert float(again.last.F) == pytest.approx(float(loss), rel=1e-4)


def test_sign_descent_needs_no_second_moment():
    w = Parameter(torch.zeros(3))
    opt = SignGD([w])
    w.grad = torch.ones(3)
    opt.step()
    assert set(opt.state[w]) == {"exp_avg"}


def tiny_gpt2(transformers):
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=17, n_positions=8, n_embd=8, n_layer=1, n_head=2, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_hugging_face_trainer(tmp_path, accumulation):
    """The recipe of the documentation, with the real Trainer, equals a loop by hand."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    class LossTrainer(transformers.Trainer):
        micro_losses = 0.0

        def training_step(self, *args, **kwargs):
            loss = super().training_step(*args, **kwargs)  # already divided by the accumulation
            self.micro_losses = self.micro_losses + loss
            if self.accelerator.sync_gradients:
                opt.set_loss(self.micro_losses)
                self.micro_losses = 0.0
            return loss

        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(rows)

    tokens = torch.randint(0, 17, (32, 8), generator=torch.Generator().manual_seed(2))
    rows = [{"input_ids": row, "labels": row} for row in tokens]
    model = tiny_gpt2(transformers)
    opt = MuonMaxMomo(model, lr=0.01)
    kinds = {name: g["kind"] for g in opt.param_groups for name in g["param_names"]}
    assert {name for name, kind in kinds.items() if kind == "matrix"} == {
        f"transformer.h.0.{part}.weight"
        for part in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    }
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=8 // accumulation, max_steps=6,
        gradient_accumulation_steps=accumulation, report_to=[], use_cpu=True, max_grad_norm=0.0,
        save_strategy="no", logging_strategy="no", disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    schedule = torch.optim.lr_scheduler.ConstantLR(opt, factor=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the Trainer's own
        trainer = LossTrainer(
            model=model, args=arguments, train_dataset=rows, optimizers=(opt, schedule)
        )
        trainer.train()
    by_hand = tiny_gpt2(transformers)
    reference = MuonMaxMomo(by_hand, lr=0.01)
    for t in range(6):
        part = tokens[8 * (t % 4) : 8 * (t % 4) + 8]
        reference.zero_grad()
        # The Trainer divides by all labels, of which the model predicts all but the first.
        loss = by_hand(input_ids=part, labels=part, num_items_in_batch=part.numel()).loss
        loss.backward()
        reference.step(loss=loss)
    assert float(opt.last.F) == pytest.approx(float(reference.last.F), rel=1e-3)
    for a, b in zip(model.parameters(), by_hand.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
