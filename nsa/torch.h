// The part of LibTorch that the model and the ranks use: tensors, autograd, the layers of the model, AdamW. Included in place
// of <torch/torch.h>, which takes twice as long to compile because it also holds every other layer and optimiser. It is the
// precompiled header of every target that links LibTorch. Collectives are not in it: include them where they are used.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>
#include <torch/utils.h>
