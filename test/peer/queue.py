# Sends or receives encrypted messages with Microsoft's SDK for Python. See python.go.
import os
import sys

from azure.storage.queue import QueueClient
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap


class Key:
    key = bytes.fromhex(os.environ["KEY"])

    def wrap_key(self, content):
        return aes_key_wrap(self.key, content)

    def unwrap_key(self, wrapped, algorithm):
        assert algorithm == "A256KW", algorithm
        return aes_key_unwrap(self.key, wrapped)

    def get_key_wrap_algorithm(self):
        return "A256KW"

    def get_kid(self):
        return os.environ["KEY_ID"]


queue = QueueClient.from_connection_string(
    os.environ["CONNECTION"], os.environ["QUEUE"],
    require_encryption=True, encryption_version="2.0", key_encryption_key=Key(),
)
if sys.argv[1] == "send":
    for text in sys.argv[2:]:
        queue.send_message(text)
else:
    for message in queue.receive_messages(max_messages=32):
        sys.stdout.write(message.content + "\0")
        queue.delete_message(message)
