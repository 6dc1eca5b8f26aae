"""The explorer in a headless Chromium: its numbers, its keys, its width and its console."""

import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from gpclass import GaussianProcessClassifier
from gpclass.likelihoods import NoisyThreshold

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
# Seconds that a browser on a busy machine may take.
PATIENCE = 40.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(DRIVER is None, reason="chromedriver is not installed"),
]


@contextmanager
def served(*arguments):
    """The address of an explorer of its own process."""
    pytest.importorskip("dash")
    command = [sys.executable, "-m", "gpclass", "explore", *arguments, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        line = server.stdout.readline()
        yield re.search(r"http://127\.0\.0\.1:\d+/", line).group()
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=PATIENCE) == 0


@pytest.fixture(scope="module")
def address():
    with served("iris", "--class", "versicolor") as found:
        yield found


@pytest.fixture(scope="module")
def address_of_three():
    with served("iris") as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for one in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{one}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.chrome.service.Service(DRIVER)
    found = webdriver.Chrome(options=options, service=service)
    yield found
    found.quit()


def seen(browser, selector):
    """Text of an element, empty while it is not there; in one step, as answers replace elements."""
    script = "const e = document.querySelector(arguments[0]); return e ? e.textContent : ''"
    return browser.execute_script(script, selector)


def wait(condition):
    """Ask again until it is true; fail with what it was."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the page did not come to it"
        time.sleep(0.05)


def expected(log_deviation, log_length, method, likelihood="probit", joint=False):
    X, y = load_iris(return_X_y=True)
    y = y if joint else y == 1
    kernel = ConstantKernel(np.exp(2 * log_deviation)) * RBF(np.exp(log_length))
    model = GaussianProcessClassifier(
        kernel, likelihood=likelihood, inference=method, optimizer=None
    )
    model.fit(StandardScaler().fit_transform(X), y)
    p = model.loo_proba_
    return (
        f"{model.log_marginal_likelihood_value_:.3f}",
        f"{log_loss(y, p):.4f}",
        f"{np.sum(p.argmax(axis=1) != y)} of 150",
    )


def wait_for_numbers(browser, *setting, **given):
    """Until the page has the library's numbers at a setting."""
    right = expected(*setting, **given)
    names = ("evidence", "loss", "errors")
    wait(lambda: tuple(seen(browser, f"#number-{name}") for name in names) == right)


def press(browser, *keys):
    """Send keys to what has the focus, as a keyboard does."""
    for key in keys:
        browser.switch_to.active_element.send_keys(key)


def focus(browser, role):
    """Go there by Tab alone."""
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    for _ in range(20):
        press(browser, keys.TAB)
        if browser.switch_to.active_element.get_attribute("role") == role:
            return
    raise AssertionError(f"Tab leads to no {role}")


def test_numbers_follow_the_keyboard_and_are_the_librarys(browser, address):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    browser.get(address)
    wait_for_numbers(browser, 1.0, 0.69, "laplace")
    focus(browser, "slider")
    press(browser, keys.ARROW_RIGHT, keys.ARROW_RIGHT)
    wait_for_numbers(browser, 1.1, 0.69, "laplace")
    browser.find_element("css selector", "#method input[value=ep]").click()
    wait_for_numbers(browser, 1.1, 0.69, "ep")
    # a method without that likelihood says so, and the page goes on
    browser.find_element("css selector", "#likelihood input[value=threshold]").click()
    browser.find_element("css selector", "#method input[value=laplace]").click()
    wait(lambda: "cannot use" in seen(browser, "#message"))
    browser.find_element("css selector", "#likelihood input[value=probit]").click()
    wait_for_numbers(browser, 1.1, 0.69, "laplace")
    assert seen(browser, "#message") == ""


def test_three_classes_follow_the_keyboard_and_are_the_librarys(browser, address_of_three):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    browser.get(address_of_three)
    wait_for_numbers(browser, 1.0, 0.69, "laplace", joint=True)
    assert seen(browser, "#number-model") == "softmax"
    focus(browser, "slider")
    press(browser, keys.ARROW_RIGHT, keys.ARROW_RIGHT)
    wait_for_numbers(browser, 1.1, 0.69, "laplace", joint=True)
    browser.find_element("css selector", "#method input[value=ep]").click()
    wait_for_numbers(browser, 1.1, 0.69, "ep", joint=True)
    assert seen(browser, "#number-model") == "multinomial probit"
    # another class is drawn, at the same numbers
    assert "versicolor" in seen(browser, "#probabilities .xtitle")
    browser.find_element("css selector", "#class input[value='2']").click()
    wait(lambda: "virginica" in seen(browser, "#probabilities .xtitle"))
    wait(lambda: "virginica" in seen(browser, "#plane .legend"))
    wait_for_numbers(browser, 1.1, 0.69, "ep", joint=True)
    # which likelihood has no joint model of EP is said, and which slider it has is there
    epsilon = browser.find_element("css selector", ".of-threshold")
    assert not epsilon.is_displayed()
    browser.find_element("css selector", "#likelihood input[value=threshold]").click()
    wait(lambda: "multinomial probit" in seen(browser, "#message"))
    assert epsilon.is_displayed()
    browser.find_element("css selector", "#method input[value=pl]").click()
    first = expected(1.1, 0.69, "pl", NoisyThreshold(float(np.exp(-4.605))), joint=True)
    wait(lambda: seen(browser, "#number-evidence") == first[0])
    epsilon.find_element("css selector", "[role=slider]").send_keys(keys.ARROW_RIGHT)
    moved = NoisyThreshold(float(np.exp(-4.55)))
    wait_for_numbers(browser, 1.1, 0.69, "pl", moved, joint=True)
    assert seen(browser, "#message") == ""


def test_another_name_of_the_machine_is_refused(address):
    assert urllib.request.urlopen(address, timeout=PATIENCE).status == 200
    rebound = urllib.request.Request(address, headers={"Host": "elsewhere.example"})
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        urllib.request.urlopen(rebound, timeout=PATIENCE)
    refused.value.close()


def test_the_surface_is_drawn_when_asked_for(browser, address):
    browser.get(address)
    wait(lambda: seen(browser, "#number-evidence"))
    assert not browser.find_elements("css selector", "#surface .contour")
    browser.find_element("id", "compute").click()
    wait(lambda: browser.find_elements("css selector", "#surface .contour"))
    assert "Laplace, probit" in seen(browser, "#surface-note")


@pytest.mark.parametrize("subject", ["address", "address_of_three"])
def test_it_fits_a_telephone_and_the_console_is_empty(browser, subject, request):
    screen = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get(request.getfixturevalue(subject))
    for name in ("probabilities", "error-reject", "surface", "plane"):
        wait(lambda name=name: browser.find_elements("css selector", f"#{name} .main-svg"))
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    wide = browser.execute_script(
        "return [...document.querySelectorAll('main *')].filter(e => {"
        "const r = e.getBoundingClientRect(); return r.width > 0 && r.right > 391;"
        "}).map(e => e.id || e.className)"
    )
    assert wide == []
    assert [line for line in browser.get_log("browser") if line["level"] != "INFO"] == []
