// Secrets of many forms are found wherever they stand, and what is none stays byte for byte.
#include "nsa/base/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using testing::HasSubstr;
using testing::Not;

// X stands for the secret, in every text that must not show it.
struct Form {
  const char* text;
  const char* secret;
};

constexpr const char* kDrawn = "q7Zk2Lr9Xw3Tn8Vb5Mh1";

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"https://user:X@example.org/a", "hunter2"},
      {"postgresql://app:X@db:5432/runs?sslmode=require", "pa55"},
      {"redis://:X@cache:6379/0", "cachepw"},
      {"git clone https://X@github.com/a/b", "c0ffee00c0ffee00c0ffee"},
      {"//svc:X@host", "w0rd"},
      {"cannot open s3://key:X@bucket/x: refused", "sl/ash"},
      {"amqp://u:X@h/%2f", "p@ss"},
      {"Authorization: Bearer X", kDrawn},
      {"authorization: bearer X", kDrawn},
      {"curl -H 'Authorization: Basic X'", "dXNlcjpwYXNz"},
      {"{\"Authorization\": \"token X\"}", kDrawn},
      {"Proxy-Authorization: X", kDrawn},
      {"Cookie: X", "sid=31337abc"},
      {"X", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
      {"token is X.", "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz"},
      {"X", "gho_abcdefghijklmnopqrstuvwxyz0123456789"},
      {"see X", "glpat-abcdefghij0123456789"},
      {"X is invalid", "sk-proj-abcdefghijklmnop0123456789"},
      {"X", "sk-ant-api03-abcdefghijklmnop0123456789-AA"},
      {"X", "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"},
      {"key X", "AKIAIOSFODNN7EXAMPLE"},
      {"key X", "ASIAIOSFODNN7EXAMPLE"},
      {"X", "xoxb-123456789012-abcdefghij"},
      {"X", "xoxp-123456789012-abcdefghij"},
      {"X", "npm_abcdefghijklmnopqrstuvwxyz0123456789"},
      {"X", "pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAwLTAwMDA"},
      {"X", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27uhbUJU1p1r"},
      {"X", "AIzaSyA1234567890abcdefghijklmnopqrstuv"},
      {"X", "ya29.a0AfH6SMBabcdefghijklmnop"},
      {"X", "sk_live_abcdefghijklmnop"},
      {"X", "SG.abcdefghijklmnop0123.abcdefghij"},
      {"X", "dckr_pat_abcdefghijklmnopqrst"},
      {"X", "nvapi-abcdefghijklmnopqrstuv"},
      {"X", "hvs.CAESIabcdefghijklmnop0123"},
      {"https://hooks.slack.com/services/X", "T00000000/B00000000/abcdefghijklmnop"},
      {"-----BEGIN RSA PRIVATE KEY-----\nX\n-----END RSA PRIVATE KEY-----", "MIIEowIBAAKCAQEA"},
      {"-----BEGIN OPENSSH PRIVATE KEY-----\nX", "b3BlbnNzaC1rZXktdjEAAAA"},
      {"--api-key X", kDrawn},
      {"--api-key=X", kDrawn},
      {"--token X --steps 5", kDrawn},
      {"--password X", "letmein"},
      {"--auth-token=X", "abc"},
      {"PASSWORD=X", "letmein"},
      {"export DB_PASSWORD='X'", "with space"},
      {"WANDB_API_KEY=X", "0123456789abcdef0123456789abcdef01234567"},
      {"HF_TOKEN=X python train.py", "abcdef"},
      {"AWS_SECRET_ACCESS_KEY=X", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"},
      {"{\"password\": \"X\"}", "s3cr\\\"et"},
      {"{'client_secret': 'X'}", "abc"},
      {"text \\\"password\\\": \\\"X\\\"", "abc"},
      {"password: X", "abc"},
      {"secretKey=X", "abc"},
      {"dbPassword = X", "12345678"},
      {"AccountKey=X;EndpointSuffix=core", "abcDEF123=="},
      {"?sig=X&se=2026", "abc%2Bdef"},
      {"passphrase \"X\"", ""},
      {"access_token=X&expires=3600", "abcdef"},
      {"refresh_token: X", "abcdef"},
      {"auth=X", "abcdef"},
      {"session_token=\"X\"", "abcdef"},
      {"jwt=X", "abcdef"},
      {"sentry dsn=X", "abcdef"},
      {"RuntimeError: login failed (password='X')", "abcdef"},
  };
  return all;
}

std::string filled(const Form& form) {
  std::string text = form.text;
  const std::size_t at = text.find('X');
  return at == std::string::npos ? text : text.replace(at, 1, form.secret);
}

TEST(Secrets, NoneOfManyFormsIsLeft) {
  int tried = 0;
  for (const Form& form : forms()) {
    if (*form.secret == '\0') continue;
    ++tried;
    const std::string text = filled(form);
    for (const std::string& around : {text, "before " + text + " after", "\n" + text + "\n"}) {
      EXPECT_THAT(nsa::without_secrets(around), Not(HasSubstr(form.secret))) << around;
      EXPECT_THAT(nsa::without_secrets(around), HasSubstr("***")) << around;
      EXPECT_EQ(nsa::without_secrets(nsa::without_secrets(around)), nsa::without_secrets(around));
    }
  }
  EXPECT_GE(tried, 60);
}

TEST(Secrets, WhatIsNoneStays) {
  for (const char* text :
       {"",
        "x",
        "layers.3.attn.wq.weight",
        "d41d8cd98f00b204e9800998ecf8427e 1234",
        "n_tokens=4096 max_tokens: 512, tokenizer=bpe token=17",
        "Basic training of the bearer network",
        "https://example.org:8080/a@2x.png",
        "git@github.com:a/b.git ssh://git@github.com/a/b",
        "torchrun --nproc-per-node 2 train.py --lr 3e-4 --key-dim 64 --n-kv-groups 2",
        "KeyError: 'encoder' at key: layer_norm",
        "author=somebody keyboard=qwerty monkey=1",
        "sk-learn and hf_model and eyJust a word",
        "passes: 12, passed=3, compass=north pass: 12, {\"PASS\":3} forward_pass: yes",
        "unknown token: the, sig=11 session: three, signature: f(x)",
        "/home/user/.cache/nsa-harness/toolchain-f2633571dd2486e4/bin",
        "GPU-3f2a9c1d-1234-5678-9abc-def012345678",
        "rank 0: allreduce sum of 676 Float; rank 1: allreduce sum of 5 Float.",
        "std::vector<int>::at(7) // a:comment without an at"}) {
    EXPECT_EQ(nsa::without_secrets(text), text);
  }
}

TEST(Secrets, OfACommandTheValueIsAWordOfItsOwn) {
  const std::vector<std::string> words = {"curl",
                                          "-u",
                                          "me:hunter2",
                                          "--api-key",
                                          "a b c",
                                          "PASSWORD=two words",
                                          "--tokens",
                                          "512",
                                          "--token",
                                          "-x",
                                          "https://u:p@h/",
                                          "python",
                                          "-u",
                                          "train.py"};
  EXPECT_THAT(nsa::words_without_secrets(words),
              testing::ElementsAre("curl",
                                   "-u",
                                   "me:***",
                                   "--api-key",
                                   "***",
                                   "PASSWORD=***",
                                   "--tokens",
                                   "512",
                                   "--token",
                                   "-x",
                                   "https://***@h/",
                                   "python",
                                   "-u",
                                   "train.py"));
}

TEST(Secrets, OfAVariableNameAndValueTell) {
  EXPECT_EQ(nsa::value_without_secrets("NCCL_LOGIN_PWD", "abc"), "***");
  EXPECT_EQ(nsa::value_without_secrets("TORCH_EXTRA", "https://u:p@h"), "https://***@h");
  EXPECT_EQ(nsa::value_without_secrets("TORCH_EXTRA", "q7Zk2Lr9Xw3Tn8Vb5Mh1c4Yd6"), "***");
  EXPECT_EQ(nsa::value_without_secrets("CUDA_HOME", "/usr/local/cuda-13.0"),
            "/usr/local/cuda-13.0");
  EXPECT_EQ(nsa::value_without_secrets("CUDA_VISIBLE_DEVICES",
                                       "GPU-3f2a9c1d-1234-5678-9abc-def012345678"),
            "GPU-3f2a9c1d-1234-5678-9abc-def012345678");
  EXPECT_EQ(nsa::value_without_secrets("NCCL_SOCKET_IFNAME", "eth0"), "eth0");
}

}  // namespace
