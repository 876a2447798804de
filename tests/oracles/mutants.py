#!/usr/bin/env python3
"""Does the oracle's test suite notice a wrong term? One mutant, one wrong term.

Patches a copy of oracles/ in a temporary folder, compiles the oracle and its tests there (g++ -O1)
and runs them: killed if a test fails or the program dies, survived if all pass. Objects that a
mutant does not touch are compiled once. Needs the built nsa_base of a build tree (the tests read the
golden files through it).

    tests/oracles/mutants.py [--build build/full] [--lock FILE] [--jobs 2] [--only PART] [--keep DIR] [--fit]

Ends with 1 where a mutant survived, and with 2 where one no longer fits the sources."""

import argparse
import concurrent.futures
import contextlib
import fcntl
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = ["-std=c++20", "-O1", "-ffp-contract=off", "-pthread", "-w"]
LIBRARIES = ["-lgtest", "-lgmock", "-lgtest_main", "-lyaml-cpp"]
RUN_LIMIT_S = 600  # a run takes seconds; a mutant may loop

# (file in oracles/, text that occurs exactly once, what stands there instead)
MUTANTS = [
    # attend: forward
    ("attention/attend.cpp", "logit /= root;", "logit /= 1;"),
    ("attention/attend.cpp", "std::exp(*p - largest)", "std::exp(*p)"),
    ("attention/attend.cpp", "*p /= sum;", "*p /= sum + 1e-9;"),
    # attend: backward
    ("attention/attend.cpp", "(dp_hK[k] - mean) / root", "(dp_hK[k] - mean)"),
    ("attention/attend.cpp", "(dp_hK[k] - mean) / root", "dp_hK[k] / root"),
    ("attention/attend.cpp", "add_products_of_keys(keys, p_hK, do_hV, bank.d_v(), dv_NV);", ""),
    ("attention/attend.cpp", "add_products_of_keys(keys, ds_hK, q_hD, bank.d_k(), dk_ND);", ""),
    ("attention/attend.cpp", "add_query_gradients(bank, keys, work.ds_hK, gradients.dq_hD);", ""),
    # backward
    ("attention/backward.cpp", "add(branch->q, gradients.q);", "gradients.q = branch->q;"),
    ("attention/backward.cpp", "return finished(layer, {&through(Branch::cmp), &through(Branch::sel), &through(Branch::win)});",
     "return finished(layer, {&through(Branch::cmp), &through(Branch::sel), &through(Branch::sel)});"),
    ("attention/backward.cpp", "each == branch ? &other : &through(each)", "&through(each)"),
    ("attention/backward.cpp", "row = lane; row <", "row = lane + kRowLanes; row <"),
    ("attention/backward.cpp", "gate.data[g] * d_o.data[c];", "d_o.data[c];"),
    ("attention/backward.cpp", "dgate_.data[g] += d_o", "dgate_.data[g] = d_o"),
    ("attention/backward.cpp", "rotate(dz, layer.config, rows, Turn::backward);", "rotate(dz, layer.config, rows, Turn::forward);"),
    ("attention/backward.cpp", "rotate(dz, layer.config, rows, Turn::backward);", ""),
    ("attention/backward.cpp", "unrotated(dq, layer, forward_.rows())", "dq"),
    ("attention/backward.cpp", "if (forward_.options().gate_override) {", "if (false) {"),
    ("attention/backward.cpp", "add_kept_input_gradient(layer, merged, layer.weight(name), dx);", ""),
    ("attention/backward.cpp", "scatter_rows(dx_rows, forward_.rows(), gradients.x);", ""),
    # block scores
    ("attention/block_scores.cpp", "Eq9::fractional ? config.l : config.d", "Eq9::fractional ? config.l_sel : config.d"),
    ("attention/block_scores.cpp", "Eq9::fractional ? config.l : config.d", "Eq9::fractional ? config.l : config.l"),
    ("attention/block_scores.cpp", "first = i * config.d / config.l_sel;", "first = i * config.d / config.l_sel + 1;"),
    ("attention/block_scores.cpp", "p_hC[head * count + c] * entry.weight", "p_hC[c] * entry.weight"),
    # compression
    ("attention/compress.cpp", "sum : sum / static_cast<double>(config.l)", "sum : sum / static_cast<double>(config.d)"),
    ("attention/compress.cpp", "share = 1 / static_cast<double>(config.l)", "share = 1 / static_cast<double>(config.d)"),
    ("attention/compress.cpp", "dconv->data[c * config.l + j] +=", "dconv->data[c * config.l + j] ="),
    ("attention/compress.cpp", "conv->data[c * config.l + j] * value : value", "conv->data[(c + 1) * config.l - 1 - j] * value : value"),
    ("attention/compress.cpp", "dpe.data[k] += ", "dpe.data[k] = "),
    ("attention/compress.cpp", "raw.data[from + k] + pe.data[k]", "raw.data[from + k]"),
    ("attention/compress.cpp", 'which == PhiOf::keys ? "phi_k" : "phi_v"', 'which == PhiOf::keys ? "phi_k" : "phi_k"'),
    # gate
    ("attention/gate.cpp", "std::exp((*value - largest) / temperature)", "std::exp(*value - largest)"),
    ("attention/gate.cpp", "(dgate.data[k] - mean) / temperature", "(dgate.data[k] - mean)"),
    ("attention/gate.cpp", "(dgate.data[k] - mean) / temperature", "dgate.data[k] / temperature"),
    ("attention/gate.cpp", "add_mean_gradient(kept, dmean, dq_BGhRD);", ""),
    ("attention/gate.cpp", "dmean_BGRD.data[group * size + k] / static_cast<double>(heads)", "dmean_BGRD.data[group * size + k]"),
    ("attention/gate.cpp", "gate_value.data[i] * (1 - gate_value.data[i])", "gate_value.data[i]"),
    ("attention/gate.cpp", 'add_kept_input_gradient(layer, projected, layer.weight("gate.proj.weight"), dx_BRE);', ""),
    ("silu.h", "return s * (1 + z * (1 - s));", "return s * (1 + z * s);"),
    # keys
    ("attention/keys.cpp", "t - config.w + 1), t + 1);", "t - config.w), t + 1);"),
    ("attention/keys.cpp", "t - config.w + 1), t + 1);", "t - config.w + 2), t + 1);"),
    ("attention/keys.cpp", "t - config.w + 1), t + 1);", "t - config.w + 1), t);"),
    ("attention/keys.cpp", "(t + 1 - config.l) / config.d + 1", "(t - config.l) / config.d + 1"),
    ("attention/keys.cpp", "(t + 1 - config.l) / config.d + 1", "(t + 1 - config.l) / config.d"),
    ("attention/keys.cpp", "std::min((block + 1) * config.l_sel, t + 1)", "(block + 1) * config.l_sel"),
    # selection
    ("attention/selection.cpp", "block > current - config.local_blocks", "block >= current - config.local_blocks"),
    ("attention/selection.cpp", "block < config.init_blocks", "block <= config.init_blocks"),
    ("attention/selection.cpp", "ordering_score(scores_N[a]) > ordering_score(scores_N[b])",
     "ordering_score(scores_N[a]) < ordering_score(scores_N[b])"),
    ("attention/selection.cpp", "std::stable_sort(candidates.begin(), candidates.end(),",
     "std::reverse(candidates.begin(), candidates.end());\n  std::stable_sort(candidates.begin(), candidates.end(),"),
    ("attention/selection.cpp", "scores_N[candidates[taken - 1]] -", "scores_N[candidates[0]] -"),
    # rope
    ("attention/rope.cpp", "-2.0 * static_cast<double>(c)", "-1.0 * static_cast<double>(c)"),
    ("attention/rope.cpp", "static_cast<double>(t) / config.rope_scale", "static_cast<double>(t)"),
    ("attention/rope.cpp", "even * cosines[table + c] - odd * sines", "even * cosines[table + c] + odd * sines"),
    # projections, forward
    ("attention/stages.cpp", "rotate(k, config(), token_positions(), Turn::forward);", ""),
    ("attention/stages.cpp", "rotate(q, config(), rows_, Turn::forward);",
     "q = q;"),
    ("attention/stage_table.h", 'projected, "W_V_sel"', 'projected, "W_V_cmp"'),
    ("attention/stages.cpp", "g[0] * outputs[0][c] + g[1] * outputs[1][c]",
     "g[1] * outputs[0][c] + g[0] * outputs[1][c]"),
    ("attention/stages.cpp", "if (options_.replay) {\n    return *options_.replay;", "if (false) {\n    return *options_.replay;"),
    ("attention/stages.cpp", "if (known != nullptr && !is_of_queries(stage)) {", "if (known != nullptr) {"),
    # language model
    ("model/rms_norm.cpp", "kEpsilon = 1e-6", "kEpsilon = 1e-5"),
    ("model/rms_norm.cpp", " - pull * z.data[row + i];", ";"),
    ("model/rms_norm.cpp", "dgain.data[i] += ", "dgain.data[i] = "),
    ("model/rms_norm.cpp", "dz.data[row + i] += ", "dz.data[row + i] = "),
    ("model/cross_entropy.cpp", "tokens_BS.data[row + 1]", "tokens_BS.data[row]"),
    ("model/cross_entropy.cpp", "is_scored.end(), true);", "is_scored.end(), true) + tokens_BS.shape[0];"),
    ("model/cross_entropy.cpp", "begin += own;", "begin += own + 1;"),
    ("model/cross_entropy.cpp", "is_scored[static_cast<std::size_t>(begin - 1)] = false;", ""),
    ("model/cross_entropy.cpp", "(v == target ? 1 : 0)", "0"),
    ("model/cross_entropy.cpp", "(z[target] - largest)", "z[target]"),
    ("model/lm.cpp", "add(x, dropped(layer, 1, stages.mlp));", "x = stages.mlp;"),
    ("model/lm.cpp", "+= *from++", "= *from++"),
    ("model/lm.cpp", 'add_mlp_gradients(prefix, result.mlp_inputs[layer]', 'add_mlp_gradients(prefix, result.inputs[layer]'),
    ("model/lm.cpp", "options.replay = options_.replay[layer];", "options.replay = options_.replay[0];"),
    # training
    ("training/optimizer.cpp", "(1 - rate * config.weight_decay)", "1"),
    ("training/optimizer.cpp", "(1 - rate * config.weight_decay)", "(1 - config.weight_decay)"),
    ("training/optimizer.cpp", "decayed - rate * direction", "parameter.data[i] - rate * direction"),
    ("training/optimizer.cpp", "(std::sqrt(v.data[i] / second) + config.eps)", "std::sqrt(v.data[i] / second + config.eps)"),
    ("training/optimizer.cpp", "(m.data[i] / first)", "m.data[i]"),
    ("training/optimizer.cpp", "std::sqrt(v.data[i] / second)", "std::sqrt(v.data[i])"),
    ("training/optimizer.cpp", "max_norm / (norm + 1e-6)", "max_norm / norm"),
    ("training/optimizer.cpp", "std::min(1.0, max_norm / (norm + 1e-6))", "max_norm / (norm + 1e-6)"),
    ("training/optimizer.cpp", "step <= config.warmup", "step < config.warmup"),
    ("training/optimizer.cpp", "static_cast<double>(step - 1 - config.warmup)", "static_cast<double>(step - config.warmup)"),
    ("training/optimizer.cpp", "g *= factor;", ""),
    # bounds on the scores: too small, a term at a time
    ("attention/score_bound.cpp", "in.k_error + g * (std::abs(k) + in.k_error)", "in.k_error"),
    ("attention/score_bound.cpp", "in.k_error + g * (std::abs(k) + in.k_error)", "g * std::abs(k)"),
    ("attention/score_bound.cpp", "add(q_error_, head, k_size_, group, logits.error);", ""),
    ("attention/score_bound.cpp", "add(q_reach_, head, k_error_, group, logits.error);", ""),
    ("attention/score_bound.cpp", "arithmetic.summed += own;", ""),
    ("attention/score_bound.cpp", "error[c] + (6 + 6 * z) * u + common", "(6 + 6 * z) * u + common"),
    ("attention/score_bound.cpp", "(std::expm1(slack_[c]) + fall_) / lowest_", "std::expm1(slack_[c]) / lowest_"),
    ("attention/score_bound.cpp", "return sums + stores + sums * stores;", "return stores;"),
    ("attention/score_bound.cpp", "return sums + stores + sums * stores;", "return sums;"),
    # wrong laws that are wrong in another way than they say
    ("laws/projection_laws.cpp", "pair.head * (config.d_k / 2) + pair.c", "pair.c"),
    ("laws/projection_laws.cpp", "by.kept(std::cos(a)) * x - by.kept(std::sin(a)) * y",
     "by.kept(std::cos(a)) * x + by.kept(std::sin(a)) * y"),
    ("laws/projection_laws.cpp", "pairing == Pairing::halves ? element / 2 : element % pairs", "element / 2"),
    ("laws/compression_laws.cpp", "j * width + c];", "k % span];"),
    ("laws/compression_laws.cpp", "positions.push_back(i * in.config().d);", "positions.push_back(i);"),
    ("laws/attend_law.cpp", "leave_out_others(listed, query.key_count, p_hK);", ""),
    ("laws/attend_law.cpp", "kSentinel = -10000", "kSentinel = -1"),
    ("laws/attend_law.cpp", "std::log(static_cast<double>(times))", "static_cast<double>(times - 1)"),
    ("laws/attend_law.cpp", "row % count + shift, 0,", "row % count - shift, 0,"),
    ("laws/attend_laws.cpp", "empty_slots(query) * query.config.l_sel", "empty_slots(query)"),
    ("laws/attend_laws.cpp", "q.t == q.config.l - 1", "q.t == q.config.l"),
    ("laws/attend_laws.cpp", "compressed_keys(q, 0, -1)", "compressed_keys(q, 0, -2)"),
    ("laws/score_laws.cpp", "c.l_sel / c.d * j + sm * m + sn * n == i", "c.l_sel / c.d * j + sm * m == i"),
    ("laws/choice_laws.cpp", "other.init_blocks = 0;", ""),
    ("laws/choice_laws.cpp", "fewer.n_sel -= 1;", ""),
    ("laws/gate_laws.cpp", "(group + 1) % groups", "group % groups"),
    ("laws/gate_laws.cpp", "k * in.config().n_heads + head;", "3 * head + k;"),
    ("laws/mixing_laws.cpp", "(gated ? gate.data[i] : 1)", "gate.data[i]"),
    ("laws/backward_laws.cpp", "terms_.deltas * deltas[h]", "deltas[h]"),
    ("laws/backward_laws.cpp", "of.last == row", "of.first == row"),
    # the matcher
    ("laws/match.cpp", "extent.everywhere = extent.everywhere && holds;", ""),
    ("laws/match.cpp", "if (!everywhere.empty()) {", "if (false) {"),
    ("laws/gradient_match.cpp", "if (!holds_everywhere || law.share >= 1) {", "if (true) {"),
    # recorded numbers, laws that fit
    ("numbers.cpp", "+= (std::uint64_t{1} << (dropped - 1)) - 1 + ((bits >> dropped) & 1U)", "+= std::uint64_t{1} << (dropped - 1)"),
    ("numbers.cpp", "if (std::abs(nearest) > f.largest) {", "if (false) {"),
    ("numbers.cpp", "* 0x1p112F;", "* 0x1p111F;"),
    ("numbers.cpp", "std::abs(value) >= f.smallest ? std::abs(value) : f.smallest;", "std::abs(value);"),
    ("naming.cpp", "if (difference <= bound || found == wanted) {", "if (!(difference > bound)) {"),
    ("naming.cpp", "first = other.first + offset;", "first = other.first;"),
    ("naming.cpp", "std::erase_if(fitting, [&](const LawFit& law) { return !everywhere(law); });", ""),
    ("expected.cpp", "if (any_wrong && !all_given) return false;", ""),
    ("expected.cpp", "contradicted += given ? 0 : times;", ""),
    ("expected.cpp", "if (law.law.last && !naming.fitting.empty()) continue;", ""),
    # products
    ("products.cpp", "return {{{{dy, false}, {weight, false}}}, dx, 1, rounding};", "return {{{{dy, false}, {weight, true}}}, dx, 1, rounding};"),
    ("products.cpp", "const double bound = 8 * (rounding.stored * length +", "const double bound = 800 * (rounding.stored * length +"),
    ("products.cpp", "const double bound = 8 * (rounding.stored * length +", "const double bound = 0.02 * (rounding.stored * length +"),
    ("products.cpp", "add_scaled(by_row.wanted, a.right, product.scale);", "add_scaled(by_row.wanted, a.right, 1);"),
    ("products.cpp", "add_scaled(by_column.wanted, again.left, product.scale);", "add_scaled(by_column.wanted, again.left, 1);"),
    ("products.cpp", "const double own = 3 * longest * kOwn", "const double own = 3e-6 * longest * kOwn"),
    ("products.cpp", "vectors.values[i + 1] = radius * std::sin(angle);", "vectors.values[i + 1] = vectors.values[i];"),
    ("products.cpp", "kProjections);\n}", "1);\n}"),
    ("sweep.cpp", "sums[v] += x * y;", "sums[0] += x * y;"),
    ("sweep.cpp", "dots[v] += row[i] * vectors[v * length + i];", ""),
    ("sweep.cpp", "sums[v * length + i] += factors[v] * row[i];", ""),
    # data
    ("training/data.cpp", "(place.step - 1) * c.accumulate + place.micro", "place.step * c.accumulate + place.micro"),
    ("training/data.cpp", "(micro * c.world + rank) * c.batch_size + row", "(micro * c.world + rank) + row * c.world"),
    ("training/data.cpp", "while (std::gcd(order.stride, windows) != 1) {", "while (false) {"),
    ("training/data.cpp", "draw(config.seed, 0) % windows", "draw(config.seed, 2) % windows"),
    ("training/data.cpp", "return s >= config.distance &&", "return s > config.distance &&"),
    ("training/data.cpp", "2 * static_cast<std::uint64_t>(s) + 1);", "2 * static_cast<std::uint64_t>(s));"),
    ("training/data.cpp", "if (s >= config.distance) {", "if (s > config.distance) {"),
    ("training/data.cpp", "(1 - config.sharpness) / vocabulary +", "config.sharpness / vocabulary +"),
    ("training/data_rules.cpp", "p.rank = c.world - 1 - p.rank;", "p.rank = (p.rank + 1) % c.world;"),
    ("training/data_rules.cpp", "const std::int64_t turn = (p.step - 1) * c.world + p.rank;", "const std::int64_t turn = p.step * c.world + p.rank;"),
    ("training/data_laws.cpp", "interval.above = std::max(interval.above, u);", ""),
    ("training/data_laws.cpp", ".together = 0", ".together = 1"),
    # the optimiser's step
    ("training/adamw_terms.cpp", "t.m_keep * in.m[i] + t.m_take * g;", "t.m_keep * in.m[i] + t.m_take * in.gradient[i];"),
    ("training/adamw_terms.cpp", "out.v[i] = t.v_keep * in.v[i] + t.v_take * w * w;", "out.v[i] = t.v_keep * in.v[i] + t.v_take * g * g;"),
    ("training/adamw_terms.cpp", "out.p[i] = kept - step;", "out.p[i] = in.p[i] - step;"),
    ("training/adamw_terms.cpp", "const double d = t.root * (s + t.middle) + t.outside;", "const double d = t.root * s + t.outside;"),
    ("training/adamw_terms.cpp", "const double squares = moments.v[i] + t.inside;", "const double squares = moments.v[i];"),
    ("training/adamw_terms.cpp", "t.root = 1 / std::sqrt(1 - std::pow(s.beta2, n));", "t.root = 1;"),
    ("training/adamw_terms.cpp", "t.use_m = 1 / (1 - std::pow(s.beta1, n));", "t.use_m = 1 / (1 - std::pow(s.beta1, n + 1));"),
    ("training/adamw_terms.cpp", "t.keep = 1 - s.lr * s.weight_decay;", "t.keep = 1;"),
    ("training/adamw_terms.cpp", "std::abs(t.m_take) * dg + 6 * u * m_sizes + f;", "std::abs(t.m_take) * dg + f;"),
    ("training/adamw_terms.cpp", "std::abs(t.m_take) * dg + 6 * u * m_sizes + f;", "std::abs(t.m_take) * dg + 600 * u * m_sizes + f;"),
    ("training/adamw_terms.cpp", "const double relative = dd / least + 8 * u;", "const double relative = 0;"),
    ("training/adamw_terms.cpp", "const double relative = dd / least + 8 * u;", "const double relative = 1e-3;"),
    ("training/adamw_terms.cpp", "const double ds = (s - lowest) + 2 * u * s + root_flushed;", "const double ds = 2 * u * s;"),
    ("training/adamw_terms.cpp", "moments.m_error = kNoError.data();", ""),
    ("training/judge_adamw.cpp", "all.v.add(piece.v);", ""),
    ("training/judge_adamw.cpp", "misfit.first = misfit.first < 0 ? here.front() : misfit.first;", "misfit.first = here.back();"),
    ("training/update_rules.cpp", "std::swap(other.beta1, other.beta2);", ""),
    ("training/update_rules.cpp", "t.inside = f.settings.eps / (t.root * t.root);", "t.inside = f.settings.eps * f.settings.eps / (t.root * t.root);"),
    ("training/update_rules.cpp", "t.keep = 1 + f.settings.lr * f.settings.weight_decay;", "t.keep = 1 + f.settings.weight_decay;"),
    ("training/update_rules.cpp", "return clipped_by(t, f, f.own_norm);", "return clipped_by(t, f, f.context.norm);"),
    ("training/update_laws.cpp", ".together = 3", ".together = 1"),
    ("training/update_laws.cpp", "? wrong / sampled : all / spread", "? 0.0 : all / spread"),
    ("training/update_laws.cpp", "std::sqrt(squares) / context.loss_scale};", "std::sqrt(squares)};"),
    # norms, schedule, loss scale, accumulation, weights
    ("training/norms.cpp", "norms.all = std::sqrt(squares);", "norms.all = squares;"),
    ("training/norms.cpp", "return in.scaled.all / in.facts.loss_scale;", "return in.scaled.all;"),
    ("training/norms.cpp", "(static_cast<double>(largest) / 64 + 8) * u;", "8 * u;"),
    ("training/norms.cpp", "(after[i] - beta1 * before[i]) * own;", "after[i] * own;"),
    ("training/norms.cpp", "9 * u * (sums.beside + std::abs(factor) * sums.squares) +", "0.1 * u * sums.squares +"),
    ("training/rate_laws.cpp", "rate_of(at, at.n * at.accumulate);", "rate_of(at, at.n + at.accumulate);"),
    ("training/rate_laws.cpp", "16 * 0x1p-53 * config.lr + recorded * rate;", "16 * 0x1p-53 * config.lr;"),
    ("training/optimizer.cpp", "if (step > config.total) {\n    return 0;", "if (step > config.total) {\n    return config.lr;"),
    ("training/scaler.cpp", "std::int64_t interval = 2000;", "std::int64_t interval = 2001;"),
    ("training/scaler.cpp", "double least = 1;", "double least = 0;"),
    ("training/scaler.cpp", "rule.counts_overflowed ? s.taken : 0};", "s.taken};"),
    ("training/scaler.cpp", "rule.skips_next ? before : now || rule.takes_overflowed;", "now;"),
    ("training/accumulate.cpp", "std::vector<double>(parts, 1 / static_cast<double>(parts))", "std::vector<double>(parts, 1 / static_cast<double>(sizes.world))"),
    ("training/accumulate.cpp", "add(r.before, w.before);", ""),
    ("training/accumulate.cpp", "bound = none ? 0 : terms * u * bound + least;", "bound = none ? 0 : u * bound;"),
    ("training/accumulate.cpp", "bound = none ? 0 : terms * u * bound + least;", "bound = none ? 0 : 1e4 * u * bound;"),
    ("training/weights_copy.cpp", "return std::trunc(value / step) * step;", "return std::nearbyint(value / step) * step;"),
    ("training/weights_copy.cpp", "rounded(p.weight_before + (p.master_after - p.master_before), p.number);", "rounded(p.weight_before, p.number);"),
    ("training/data.cpp", "1 + static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(most));", "static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(most));"),
    ("training/data.cpp", "std::numeric_limits<std::uint64_t>::max() - config.seed;", "config.seed;"),
    ("training/shares.cpp", "return real(tokens.own * config.world) / real(tokens.of_step);", "return real(tokens.own) / real(tokens.of_step);"),
    ("training/shares.cpp", "if (rank != place.rank) continue;", ""),
    ("model/cross_entropy.cpp", "scored.empty() ? length - 1 : scored[static_cast<std::size_t>(b)];", "length - 1;"),
    # packed documents
    ("attention/documents.cpp", "inputs.options.replay = tokens_of(*options.replay, at);", ""),
    ("attention/documents.cpp", "sum[i] += gradient.data[i];", "sum[i] = gradient.data[i];"),
    ("attention/documents.cpp", "begin += length;", "begin += length - 1;"),
    ("attention/documents.cpp", "if (sum != tokens_BS.at(1)) {", "if (false) {"),
    ("attention/documents.cpp", "put_tokens(result.blocks, at, all.blocks);", ""),
    ("attention/documents.cpp", "put_tokens(with_one(gradients.x, kLists), at, dx);", ""),
    ("training/document_lengths.cpp", "config.seq_len / (2 * (count - 1))", "config.seq_len / (count - 1)"),
    ("training/document_lengths.cpp", "if (length > most) length = most;", ""),
    ("training/document_lengths.cpp", "draw(key, turn + 1)", "draw(key, turn)"),
    ("training/document_lengths.cpp", "(j + first) % count", "j"),
    ("training/document_lengths.cpp", "config.documents > config.seq_len / 2", "config.documents > config.seq_len"),
    ("training/shares.cpp", "rows.end(), -ends);", "rows.end(), std::int64_t{0});"),
    ("laws/document_laws.cpp", "in_sequence - c.w + 1), in_sequence + 1);", "in_sequence - c.w), in_sequence + 1);"),
    ("laws/document_laws.cpp", "in.keys_before + own);", "in.keys_before + own + 1);"),
    ("laws/document_laws.cpp", "append_range(keys, 0, in.keys_before);", ""),
    ("laws/document_laws.cpp", "if (block < 0) break;", "if (block < 1) break;"),
    ("laws/document_laws.cpp", "std::min((block + 1) * c.l_sel, in_sequence + 1);", "(block + 1) * c.l_sel;"),
    ("model/loss_laws.cpp", "return s == end - 1 && !t_.without_borders;", "return s == end - 1;"),
    ("model/loss_laws.cpp", "if (s == end && t_.first_tokens_missing) return true;", ""),
    ("training/run.cpp", "options.documents = document_lengths(config.data, place);", ""),
    ("training/run.cpp", "mean.data[i] += share * own[i];", "mean.data[i] = share * own[i];"),
    ("training/run.cpp", "++state.n;", "state.n += 2;"),
    # initial values
    ("training/initial_values.cpp", "0.1 * std::sqrt(6 / (real(shape[1]) + 3))", "std::sqrt(6 / (real(shape[1]) + 3))"),
    ("training/initial_values.cpp", "1 / std::sqrt(real(config.attention.d_k))", "1 / std::sqrt(real(shape[0]))"),
    ("training/initial_values.cpp", "const double wanted = rounded(s.law.size, s.number);", "const double wanted = s.law.size;"),
    ("training/initial_values.cpp", "kind->second.moments.add(sample.moments);", ""),
    ("training/distribution.cpp", "return is_normal(*this) ? law.size * law.size : law.size * law.size / 3;", "return law.size * law.size / 3;"),
    ("training/distribution.cpp", "const double end = (below + number_above(below, number)) / 2;", "const double end = below;"),
    ("training/distribution.cpp", "m.largest <= most * (1 + 2 * u) && m.lowest >= least;", "m.lowest >= least;"),
    ("training/distribution.cpp", "const double bound = std::sqrt(std::log(2 / alarm) / (2 * n)) + kSteps;", "const double bound = 0.3 * std::sqrt(std::log(2 / alarm) / (2 * n));"),
    ("training/distribution.cpp", "const double bound = std::sqrt(std::log(2 / alarm) / (2 * n)) + kSteps;", "const double bound = 1;"),
    ("training/distribution.cpp", ": square * std::sqrt(l / (2 * n));", ": square * 9;"),
    ("training/initial_laws.cpp", "scaled = scaled && std::abs(a * scale - b) <= bound;", "scaled = false;"),
    ("training/initial_laws.cpp", "if (same_length && std::memcmp(", "if (false && std::memcmp("),
    # stages of the model
    ("model/norm_stage.cpp", "kEpsilon = 1e-6", "kEpsilon = 1e-5"),
    ("model/norm_stage.cpp", "const double pull = r * r * r / static_cast<double>(width);", "const double pull = r * r / static_cast<double>(width);"),
    ("model/norm_stage.cpp", "const double r = scale * inverse_rms(squares, width);", "const double r = inverse_rms(squares, width);"),
    ("model/norm_stage.cpp", "return sum_roundoff(width) / 2 + 6;", "return 0.2;"),
    ("model/norm_stage.cpp", "return sum_roundoff(width) / 2 + 6;", "return 1e4;"),
    ("model/norm_laws.cpp", "value -= t.centre * mean;", ""),
    ("model/norm_laws.cpp", "const double g = t.gain_offset + std::pow(gain.data[i], t.gain_power);", "const double g = std::pow(gain.data[i], t.gain_power);"),
    ("model/linear_rows.cpp", "8 / std::sqrt(3.0) * std::sqrt(sums.spread);", "0;"),
    ("model/linear_rows.cpp", "rounding_.summed * sum_roundoff(terms_) * sums.size", "rounding_.summed * 1e-2 * sums.size"),
    ("model/mlp_stage.cpp", "const double parts = std::abs(slope) + 0.5 + std::max(z.value.data[i], 0.0);", "const double parts = 0.1 * std::abs(slope);"),
    ("model/mlp_stage.cpp", "e.value.data[i] = own * slope;", "e.value.data[i] = own;"),
    ("model/mlp_laws.cpp", "std::fill(kept.end() - cut, kept.end(), 0.0);", "std::fill(kept.begin(), kept.begin() + cut, 0.0);"),
    ("model/stream_stage.cpp", "std::abs(b) * branch + in.rounding.flushed;", "in.rounding.flushed;"),
    ("model/embedding_stage.cpp", "e.value.data[to * width + c] += in.scale * row[c];", "e.value.data[to * width + c] = in.scale * row[c];"),
    ("model/embedding_stage.cpp", "e.bound.data[i] = roundings * in.rounding.summed * e.bound.data[i] +", "e.bound.data[i] = 1e-3 * in.rounding.summed * e.bound.data[i] +"),
    ("model/loss_laws.cpp", "std::int64_t shift = 1;", "std::int64_t shift = 0;"),
    ("model/loss_laws.cpp", "s + t_.shift >= 0 && s + t_.shift + t_.skip_last < length_ && is_scored(b, s);", "true;"),
    ("model/loss_laws.cpp", "const double share = in_.gradient_scale * t_.scale / (count() * t_.base);", "const double share = t_.scale / (count() * t_.base);"),
    ("model/loss_laws.cpp", "sum_roundoff(in_.logits.columns) + 6 + 4 * sizes", "0.01 * sizes"),
    ("model/head_stage.cpp", "const Matrix read{in.head.numbers, in.head.columns, in.head.rows};", "const Matrix read{in.head.numbers, in.head.rows, in.head.columns};"),
    ("model/stage_naming.cpp", "merge_forms(naming.fitting);", ""),
    ("model/lm.cpp", "std::reverse(kept.mlp_inputs.begin(), kept.mlp_inputs.end());", ""),
    ("model/lm.cpp", "keep(du, stages.hidden);", ""),
]


def run(command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


class Tree:
    """A copy of the oracle and its tests, and its objects."""

    def __init__(self, folder, build, jobs):
        self.folder, self.build, self.jobs = folder, build, jobs
        for part in ("oracles", "tests/oracles"):
            shutil.copytree(ROOT / part, folder / part)
        sources = sorted((folder / "oracles").rglob("*.cpp")) + sorted((folder / "tests/oracles").rglob("*_test.cpp"))
        sources.append(ROOT / "tests/fakes/where.cpp")
        self.objects = {source: folder / "objects" / (source.stem + ".o") for source in sources}
        (folder / "objects").mkdir()

    def compile(self, source, to, first_include=None):
        includes = [first_include] if first_include else []
        command = ["nice", "g++", *FLAGS, f'-DNSA_TEST_TREE="{ROOT}"', f'-DNSA_TEST_PROGRAMS="{self.build}/bin"']
        for folder in [*includes, self.folder, ROOT]:
            command += ["-I", folder]
        done = run([*command, "-MMD", "-c", source, "-o", to])
        if done.returncode != 0:
            raise RuntimeError(f"{source.name} does not compile:\n{done.stderr[-2000:]}")

    def compile_all(self):
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(lambda item: self.compile(*item), self.objects.items()))

    def link(self, objects, to):
        done = run(["g++", "-pthread", *objects, self.build / "nsa/libnsa_base.a", *LIBRARIES, "-o", to])
        if done.returncode != 0:
            raise RuntimeError(f"{to.name} does not link:\n{done.stderr[-2000:]}")

    def includers(self, name):
        """Sources that see oracles/`name`, itself included, from the compiler's dependency files."""
        wanted = f"oracles/{name}"
        for source, made in self.objects.items():
            if re.search(rf"(^|[/\s]){re.escape(wanted)}(\s|$)", made.with_suffix(".d").read_text()):
                yield source

    def mutated(self, number, name, old, new):
        """The program with one mutant. The patched file stands first among the include paths, and for a
        header every source that sees it is compiled again."""
        own = self.folder / f"mutant{number}"
        patched = own / "oracles" / name
        patched.parent.mkdir(parents=True)
        text = (self.folder / "oracles" / name).read_text()
        patched.write_text(text.replace(old, new))
        objects = dict(self.objects)
        for source in list(self.includers(name)):
            objects[source] = own / (source.stem + ".o")
            whole = self.folder / "oracles" / name
            self.compile(patched if source == whole else source, objects[source], own)
        self.link(objects.values(), own / "tests")
        return own / "tests"


def stale(mutants):
    found = []
    for name, old, _ in mutants:
        count = (ROOT / "oracles" / name).read_text().count(old)
        if count != 1:
            found.append(f"{name}: {count} times: {old}")
    return found


def verdict(program):
    """(killed?, by what)"""
    try:
        done = run([program, "--gtest_brief=1", "--gtest_fail_fast"], timeout=RUN_LIMIT_S)
    except subprocess.TimeoutExpired:
        return True, "still running"
    if done.returncode == 0:
        return False, ""
    failed = re.search(r"\[  FAILED  \] (\S+)", done.stdout)
    return True, failed.group(1).rstrip(",") if failed else f"ended with {done.returncode}"


@contextlib.contextmanager
def locked(path):
    if path is None:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build/full")
    options.add_argument("--lock", help="a file that is locked while compiling, not while testing")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--only", action="append", help="mutants of files whose name contains this")
    options.add_argument("--keep", type=pathlib.Path, help="work in this new folder and leave it")
    options.add_argument("--fit", action="store_true", help="only whether all of them fit the sources")
    chosen = options.parse_args()
    mutants = [m for m in MUTANTS if not chosen.only or any(part in m[0] for part in chosen.only)]
    unfit = stale(mutants)
    if unfit:
        print("\n".join(["do not fit the sources:", *unfit]))
        return 2
    if chosen.fit:
        return 0
    with contextlib.ExitStack() as stack:
        folder = chosen.keep or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        return judge_all(folder, chosen, mutants)


def judge_all(folder, chosen, mutants):
    with locked(chosen.lock):
        begin = time.time()
        tree = Tree(folder, chosen.build.resolve(), chosen.jobs)
        tree.compile_all()
        tree.link(tree.objects.values(), tree.folder / "tests_right")
        with concurrent.futures.ThreadPoolExecutor(tree.jobs) as pool:
            programs = list(pool.map(lambda item: tree.mutated(item[0], *item[1]), enumerate(mutants)))
    print(f"{len(mutants)} mutants compiled in {time.time() - begin:.0f} s", flush=True)
    failed, by = verdict(tree.folder / "tests_right")
    if failed:
        print(f"the tests fail without a mutant: {by}")
        return 2
    survivors = 0
    for (name, old, new), program in zip(mutants, programs):
        killed, by = verdict(program)
        survivors += not killed
        print(f"{'killed  ' if killed else 'SURVIVED'} {name}: {old!r} -> {new!r} {by}", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} killed, {time.time() - begin:.0f} s in all")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
