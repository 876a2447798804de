"""The wheel is of one platform, since it holds a program, and of every Python 3. What the launcher knows comes as variables:
NSA_HARNESS_VERSION, and NSA_HARNESS_GLIBC, the newest version of glibc that the program asks for ("2.36")."""

import os

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        glibc = os.environ["NSA_HARNESS_GLIBC"].replace(".", "_")
        return "py3", "none", f"manylinux_{glibc}_{os.uname().machine}"


setup(version=os.environ["NSA_HARNESS_VERSION"], cmdclass={"bdist_wheel": Wheel})
