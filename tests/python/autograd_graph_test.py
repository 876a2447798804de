"""What Reach says of graphs: plain, checkpointed, compiled, sharded, those of DistributedDataParallel with several outputs."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

import torch  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from nsa_harness.autograd_graph import UNKNOWN, Reach  # noqa: E402


class Two(torch.nn.Module):
    """Two heads, of which a loss may use one."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False)

    def forward(self, x):
        return self.a(x), self.b(x)


class HalfDetached(Two):
    def forward(self, x):
        return self.a(x) + self.b(x).detach()


class Through(torch.autograd.Function):
    """Takes a weight and gives it no gradient."""

    @staticmethod
    def forward(ctx, x, weight):
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Reaching(unittest.TestCase):
    def setUp(self):
        self.original = torch.autograd.backward
        self.addCleanup(setattr, torch.autograd, "backward", self.original)
        torch.manual_seed(0)
        self.x = torch.randn(2, 3)

    def watched(self, model, recorded=True):
        torch.autograd.backward = self.original
        reach = Reach(torch)
        reach.add(model, list(model.named_parameters()))
        reach.watch_backward(lambda: recorded)
        return reach

    def told(self, reach):
        return {name[0]: reach.of(name) for name in sorted(reach.names.values())}

    def test_a_head_that_the_loss_does_not_use(self):
        model = Two()
        reach = self.watched(model)
        model(self.x)[0].sum().backward()
        self.assertEqual(self.told(reach), {"a": True, "b": False})
        model(self.x)[1].sum().backward()  # of the same step
        self.assertEqual(self.told(reach), {"a": True, "b": True})
        reach.begin()
        self.assertEqual(self.told(reach), {"a": UNKNOWN, "b": UNKNOWN})

    def test_no_backward_that_is_seen_tells_nothing(self):
        model = Two()
        reach = self.watched(model)
        torch.autograd.grad(model(self.x)[0].sum(), [model.a.weight])
        self.assertEqual(self.told(reach), {"a": UNKNOWN, "b": UNKNOWN})
        reach = self.watched(model, recorded=False)
        model(self.x)[0].sum().backward()
        self.assertEqual(self.told(reach), {"a": UNKNOWN, "b": UNKNOWN})

    def test_a_gradient_that_an_operation_withholds(self):
        model = Two()
        reach = self.watched(model)
        Through.apply(model.a(self.x), model.b.weight).sum().backward()
        self.assertIsNone(model.b.weight.grad)
        self.assertEqual(self.told(reach), {"a": True, "b": True})

    def test_a_backward_of_some_inputs(self):
        model = Two()
        reach = self.watched(model)
        sum(model(self.x)).sum().backward(inputs=[model.a.weight])
        self.assertEqual(self.told(reach), {"a": True, "b": False})

    def test_several_roots_and_a_leaf(self):
        model = Two()
        reach = self.watched(model)
        one = torch.ones(3, 3)
        torch.autograd.backward([model(self.x)[0].sum(), model.b.weight], [None, one])
        self.assertEqual(self.told(reach), {"a": True, "b": True})
        torch.testing.assert_close(model.b.weight.grad, one)

    def test_checkpoints(self):
        for reentrant in (True, False):
            model = Two()
            reach = self.watched(model)
            x = self.x.clone().requires_grad_()
            checkpoint(lambda x, model=model: model.a(x), x, use_reentrant=reentrant).sum().backward()
            with self.subTest(reentrant=reentrant):
                self.assertEqual(self.told(reach), {"a": True, "b": False})

    def test_what_is_compiled_hides_what_is_cut_inside(self):
        model = HalfDetached()
        reach = self.watched(model)
        torch.compile(model, backend="aot_eager")(self.x).sum().backward()
        self.assertIsNone(model.b.weight.grad)
        # torch 2.4 gives a compiled piece only those inputs that get a gradient: there the walk itself does not arrive.
        lists_all = tuple(int(part) for part in torch.__version__.split(".")[:2]) > (2, 4)
        self.assertEqual(self.told(reach)["b"], UNKNOWN if lists_all else False)
        reach = self.watched(model)
        torch.compile(model.a, backend="aot_eager")(self.x).sum().backward()
        self.assertFalse(self.told(reach)["b"])

    def test_of_all_ranks(self):
        import torch.distributed.fsdp

        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        ddp = torch.nn.parallel.DistributedDataParallel(Two(), find_unused_parameters=True)
        reach = self.watched(ddp.module)
        ddp(self.x)[0].sum().backward()
        self.assertEqual(self.told(reach), {"a": True, "b": False})

        if not hasattr(torch.distributed.fsdp, "fully_shard"):
            self.skipTest("this torch has no fully_shard")
        sharded = Two()
        for module in (sharded.a, sharded.b, sharded):
            torch.distributed.fsdp.fully_shard(module, mesh=torch.distributed.init_device_mesh("cpu", (1,)))
        reach = self.watched(sharded)
        for _ in range(2):  # the first call may make its parameters anew
            reach.begin()
            sharded(self.x)[0].sum().backward()
            self.assertEqual(self.told(reach), {"a": True, "b": False})


if __name__ == "__main__":
    unittest.main(verbosity=0)
