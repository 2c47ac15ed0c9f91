# SPDX-License-Identifier: MIT
"""The lines with grpcurl in docs/api.md: their JSON is of the API, and grpcurl, where this
machine has it, gets an answer for each. Also the example in C++.

    api_lines_test.py REPOSITORY mnemon-train mnemon-server PACKAGE mnemon_client_example
"""

import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import unittest

import package_under_test
from served_model import ServedModel

REPOSITORY, TRAIN, SERVER, PACKAGE, EXAMPLE = sys.argv[1:6]
package_under_test.find(REPOSITORY, PACKAGE)
from google.protobuf import descriptor_pb2, json_format  # noqa: E402
from mnemon import descriptors  # noqa: E402

BINPB = pathlib.Path(descriptors.__file__).parent / "v1/api.binpb"
FILES = descriptor_pb2.FileDescriptorSet.FromString(BINPB.read_bytes()).file
ADDRESS = "127.0.0.1:50051"


def request_of(method):
    """The class of the request of "package.Service/Method"."""
    service, _, name = method.rpartition("/")
    (request,) = (
        entry.input_type.lstrip(".")
        for file in FILES
        for declared in file.service
        if f"{file.package}.{declared.name}" == service
        for entry in declared.method
        if entry.name == name
    )
    return descriptors.message_class(request)


def messages_in(text):
    """The JSON values that follow each other in `text`."""
    decoder, values = json.JSONDecoder(), []
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        values.append(value)
        text = text[end:]
    return values


class ApiLinesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = ServedModel(REPOSITORY, TRAIN, SERVER)
        with open(f"{REPOSITORY}/docs/api.md") as file:
            cls.lines = re.findall(r"^grpcurl .*$", file.read(), re.MULTILINE)

    @classmethod
    def tearDownClass(cls):
        cls.served.stop()

    def test_their_json_is_of_the_api(self):
        self.assertGreater(len(self.lines), 15)
        parsed = 0
        for line in self.lines:
            with self.subTest(line):
                words = shlex.split(line)
                self.assertEqual(words[:2], ["grpcurl", "-plaintext"])
                if "-d" not in words:
                    self.assertEqual(words[2], ADDRESS)
                    continue
                option, body, address, method = words[2:]
                self.assertEqual((option, address), ("-d", ADDRESS))
                for message in messages_in(body):
                    json_format.ParseDict(message, request_of(method)())
                    parsed += 1
        self.assertGreater(parsed, 15)

    def test_grpcurl_gets_answers(self):
        if shutil.which("grpcurl") is None:
            print("SKIPPED: the lines with grpcurl were not run; grpcurl is not installed")
            return
        for line in self.lines:
            with self.subTest(line):
                words = shlex.split(line.replace(ADDRESS, self.served.address))
                ran = subprocess.run(words, capture_output=True, text=True, timeout=6000)
                self.assertEqual((ran.returncode, ran.stderr), (0, ""))
                self.assertTrue(ran.stdout.strip())

    def test_the_example_in_cpp(self):
        def run(address):
            return subprocess.run(
                [EXAMPLE, address], capture_output=True, text=True, timeout=600
            )

        ran = run(self.served.address)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertGreaterEqual(len(ran.stdout), 3 * 41)
        ran = run("127.0.0.1:1")
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertIn("UNAVAILABLE", ran.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
