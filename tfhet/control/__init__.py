"""The link between launchers: who has joined, who holds a lease, and the end of the job.

server.py       the leader's end;  client.py: a follower's end;  lease.py: when a lease is renewed, and lost
connection.py   an authenticated connection, with a key made from the job's secret (secret.py)
"""

from tfhet.control.client import LinkClient
from tfhet.control.message import MAX_MESSAGE_BYTES
from tfhet.control.secret import HYPERPARAMETER_VARIABLE, SECRET_VARIABLE, Secret, new_secret
from tfhet.control.server import LinkServer
