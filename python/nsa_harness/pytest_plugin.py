"""pytest finds this by itself: the fixture nsa_validate(fn, spec), whose verdicts stand in the summary and in JUnit's
file. docs/your-kernel.md tells how."""

import pytest

from nsa_harness import SpecError, validate

_told = pytest.StashKey[list]()  # verdicts of this session


def pytest_addoption(parser):
    parser.addoption("--nsa-thorough", action="store_true", help="nsa_validate tries lengths in the thousands: a minute for each case on a CPU")


@pytest.fixture
def nsa_validate(request, record_property):
    """nsa_validate(fn, spec) is validate(fn, spec), and fails the test unless every case passed. Gives the Verdict."""
    told = request.config.stash.setdefault(_told, [])

    def judge(fn, spec, **options):
        __tracebackhide__ = True
        options.setdefault("thorough", request.config.getoption("--nsa-thorough"))
        try:
            verdict = validate(fn, spec, **options)
        except SpecError as error:
            pytest.fail(str(error), pytrace=False)
        told.append(f"{request.node.nodeid}\n{verdict}")
        record_property("nsa_harness_report", verdict.report)
        record_property("nsa_harness_codes", " ".join(finding.code for finding in verdict.findings))
        outcomes = {case.outcome for case in verdict.cases}
        if outcomes == {"SKIP"}:
            pytest.skip(f"nothing was judged: {verdict.cases[0].reason}")
        if not verdict:
            pytest.fail(str(verdict), pytrace=False)
        return verdict

    return judge


def pytest_terminal_summary(terminalreporter, config):
    told = config.stash.get(_told, [])
    if told:
        terminalreporter.section("nsa-harness")
    for text in told:
        terminalreporter.write_line(text)
