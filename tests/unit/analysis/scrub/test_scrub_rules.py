"""What is taken for a secret, and what is not."""

import pytest

from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.analysis.scrub.rules import (
    ReportNames,
    ScrubOptions,
    make_redactor,
    parse_variables,
)
from gpu_profile.analysis.scrub.second_search import find_leak


@pytest.mark.parametrize(
    "text",
    [
        "void at::native::elementwise_kernel<(int)128, (int)2>(int, T3)",
        "tokens=4096, batch 8",
        "mask-rcnn/backbone 1/2",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "/model/layers.0/attn/MatMul",
        "12.4.127.1 MB/s",
    ],
)
def test_names_of_work_are_left_alone(text: str) -> None:
    assert Redactor().text(text) == text
    assert Redactor().leaks(text) == ""


@pytest.mark.parametrize(
    ("value", "variables"),
    [
        ('RANK="1"', {"RANK": "1"}),
        ("A=1;B=two words;C=", {"A": "1", "B": "two words", "C": ""}),
        ('{"A": "1", "TOKEN": "x y"}', {"A": "1", "TOKEN": "x y"}),
        ("A=1\0B=x=y\0", {"A": "1", "B": "x=y"}),
    ],
)
def test_environments_are_read_however_nsys_writes_them(
    value: str, variables: dict[str, str]
) -> None:
    assert parse_variables(value) == variables


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("connect to 52.94.12.7", "connect to <host>"),
        ("tcp://52.94.12.7:29500", "tcp://<host>:29500"),
        ("100.64.3.9 is up", "<host> is up"),
        ("listening on 2001:db8::7", "listening on <host>"),
        ("[fe80::1c2d:3e4f]:80", "[<host>]:80"),
        ("via b8:ce:f6:01:02:03", "via <host>"),
        ("store.prod.acme.com answers", "<host> answers"),
        ("123456789012.dkr.ecr.us-west-2.amazonaws.com/x:1", "<host>/x:1"),
        ("load s3://acme-secret/ckpt/1.pt now", "load s3://<bucket> now"),
        ("role arn:aws:iam::123456789012:role/x", "role <arn>"),
        ("/workspace9/app/model.py:12", "<path>/model.py:12"),
        ("src/project-orion/model.py", "<path>/model.py"),
    ],
)
def test_addresses_and_places_are_hidden(text: str, shown: str) -> None:
    assert Redactor().text(text) == shown
    assert Redactor().leaks(text) != ""
    assert Redactor().leaks(shown) == ""


@pytest.mark.parametrize(
    "text",
    [
        "c10::detail::dead::beef<add::fe>",
        "cudnn 8.9.2.26, took 12:34:56",
        "forward(x[0,1]) of torch.nn.functional",
        "train.py:12 step",
        "0000:1b:00.0",
        "custom-call.5, all-reduce-start.1.clone, loop-fusion.clone",
        "layer1.conv.weight, transformer.h.5, cases.tf32_4096, body.down-proj.bias",
        "cast to torch.bfloat16 at model.layers.self_attn, from torch.nn.functional",
        "mask-rcnn.backbone.fpn of jax.lax.scan",
        "server.run(x), c10::Tensor::~Tensor, memcpy@GLIBC_2.2.5",
        "-m torch.distributed.run --lr 0.1 -p 8",
        "token::Lexer, tokens=4096,8192",
        "[kernel.kallsyms]",
        "/gs/layer/MatMul",
    ],
)
def test_versions_times_and_code_are_no_addresses(text: str) -> None:
    assert Redactor().text(text) == text
    assert find_leak(text, frozenset({"trainbox"})) == ""


def test_a_full_host_name_goes_with_its_short_form_and_its_neighbours() -> None:
    clean = make_redactor(
        [ReportNames(hosts={"gpunode07.corp.acme.com", "vm"}, users={"bob"})], ScrubOptions()
    )
    text = clean.text("rank0.gpunode07.nsys-rep on GPUNODE07 with gpunode08, gpunode[01-06]")
    assert text == "rank0.<host0>.nsys-rep on <host0> with <host>, <host>"
    assert clean.text("a vm of bob: rank1.vm.nsys-rep") == "a vm of bob: rank1.<host1>.nsys-rep"
    assert (
        clean.text("--master_addr=vm -u bob", everywhere=True) == "--master_addr=<host1> -u <user>"
    )
    assert clean.text("--nodelist=n[1-4]", everywhere=True) == "--nodelist=<host>"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("see Trainbox for it", "a user, host or credential of the original"),
        ("rank0.trainbox.nsys-rep", "a user, host or credential of the original"),
        ("http://10.1.2.3:80", "an address"),
        ("at fe80::1", "an address"),
        ("git clone https://me:pw@h/x", "a URL's password or bucket"),
        ("gs://acme/x", "a URL's password or bucket"),
        ("run --db-pass=correct-horse", "a credential's assignment"),
        ("<secret> of <host> in gs://<bucket>", ""),
        ("DB_PASS=<secret> https://***@h/x tokens=4096", ""),
    ],
)
def test_the_second_search_parses_words(text: str, what: str) -> None:
    assert find_leak(text, frozenset({"trainbox"})) == what


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("forward h.3|Attention|secret_project/model.py:12", "forward h.3|Attention"),
        ("backward h.3|Attention|model.py:12", "backward h.3|Attention"),
        ("accumulate h.3|Attention|model.py:12", "accumulate h.3|Attention"),
        ("forward h.3|Attention", "forward h.3|Attention"),
        ("forwarding a|b|c", "forwarding a|b|c"),
    ],
)
def test_the_file_and_line_of_a_module_go(text: str, clean: str) -> None:
    assert Redactor().text(text) == clean
    assert Redactor(paths=False).text(text) == text


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/v/lib/python3.12/site-packages/torch/utils/data/x.py", "torch/utils/data/x.py"),
        ("/home/bob/env/lib/python3.12/threading.py", "/lib/python3.12/threading.py"),
        ("/v/lib/python3.12/site-packages/acme_secret/x.py", "/site-packages/x.py"),
        ("/v/lib/python3.12/site-packages/acme_secret/torch/x.py", "/site-packages/x.py"),
    ],
)
def test_code_of_public_libraries_is_still_told_from_the_users(path: str, shown: str) -> None:
    text = Redactor().text(path)
    assert text.startswith("<path>/")
    assert text.endswith(shown)
    assert not {"bob", "acme_secret"} & set(text.split("/"))
    assert Redactor().text(text) == text
    assert Redactor().leaks(text) == ""


def test_a_line_of_library_paths_is_searched_once() -> None:
    """180 kB of it took 47 s."""
    assert Redactor().text("/lib/python3/" * 15_000) == "<path>"
