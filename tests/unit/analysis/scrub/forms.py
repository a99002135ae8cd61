"""Forms of credentials, addresses, hosts and users, each with the part that must not stay.

All are made by hand and worth nothing.
"""

from dataclasses import dataclass

HOST = "gpunode60"
"""The machine of the report in which the forms are planted."""


@dataclass(frozen=True)
class Form:
    """`text` is planted, `part` must be gone."""

    part: str
    text: str


KEY = "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nZq20b3BlbnNz\n-----END OPENSSH PRIVATE KEY-----"

FORMS = (
    Form("Zq01", "PGPASSWORD=Zq01hunter2x"),
    Form("Zq02", "--password Zq02hunter2x"),
    Form("Zq03", "mysql -pZq03hunter2x"),
    Form("Zq04", "https://alice:Zq04hunter2x@host/x"),
    Form("Zq05", "postgres://u:Zq05p%40ss@db.int/x"),
    Form("WnE2aHV", "Authorization: Basic WnE2aHVudGVyMng6eA=="),
    Form("Zq07", '{"password": "Zq07hunter2x"}'),
    Form("Zq08", "{'api_key': 'Zq08hunter2x'}"),
    Form("Zq09", "password is Zq09hunter2x"),
    Form("Zq10", "export TOKEN='Zq10 hunter x'"),
    Form("Zq11", 'WANDB_API_KEY="Zq11hunter2x"'),
    Form("Zq12", "sk-" + "ant-Zq12abcdefghijklmnopqrst"),
    Form("Zq13", "AZURE_STORAGE_KEY=Zq13abc+/=="),
    Form("Zq14", "-e DB_PASS=Zq14hunter"),
    Form("Zq15", "passwd:Zq15hunter"),
    Form("Zq16", "password=Zq16"),
    Form("Zq17", "PASSWORD = Zq17 hunter"),
    Form("Zq18", "--secret-key=Zq18hunter"),
    Form("Zq19", "xoxb-" + "Zq19-1234567890-abc"),
    Form("Zq20", KEY),
    Form("Zq21", "AccountKey=Zq21abcd1234==;EndpointSuffix"),
    Form("Zq22", "https://x.blob.core.windows.net/c?sv=1&sig=Zq22abcdEFGH%3D"),
    Form("Zq23", "https://b.s3.amazonaws.com/k?X-Amz-Signature=Zq23abcdef&X-Amz-Credential=x"),
    Form("Zq24", "aws_session_token=Zq24IQoJb3"),
    Form("Zq25", "ssh-rsa AAAAB3NzaZq25 alice@wks7"),
    Form("wks8", "ssh-ed25519 AAAAC3NzaC1lZ alice@wks8"),
    Form("Zq26", "sshpass -p Zq26hunter ssh"),
    Form("Zq27", "curl -u bob:Zq27hunter"),
    Form("carl", "curl -u carl:hunter27"),
    Form("Zq28", "token\uff1aZq28fullwidth"),
    Form("Zq29", "p\u200bassword=Zq29zerowidth"),
    Form("Zq30", "PASSWORD%3DZq30urlenc"),
    Form("Zq31", "ssh gpu1 'train.py --password Zq31hunter2x -p Zq31hunter'"),
    Form("Zq32", "run train --password Zq32hunter on login-node.mycompany.tech"),
    Form("10.20.30.41", "10.20.30.41"),
    Form("203.0.113.42", "host=203.0.113.42"),
    Form("203.0.113.43", "203.0.113.43"),
    Form("203.0.113.44", "tcp://203.0.113.44:29500"),
    Form("89a5", "fe80::1ff:fe23:4567:89a5%eth0"),
    Form("db8::46", "2001:db8::46"),
    Form("10.20.30.47", "::ffff:10.20.30.47"),
    Form("0a141e30", "0x0a141e30"),
    Form("10-20-30-49", "ip-10-20-30-49"),
    Form("030.050", "010.020.030.050"),
    Form("::51", "[fd00::51]:80"),
    Form("30.52", "10.20.30.52/16"),
    Form("30.53", "rank 3 of 10.20.30.53_29500"),
    Form("30\u300254", "10\u300220\u300230\u300254"),
    Form("00:55", "02:42:ac:11:00:55"),
    Form("0056", "0242.ac11.0056"),
    Form("00-57", "02-42-ac-11-00-57"),
    Form("gpunode61", "gpunode61.corp.example.com"),
    Form("gpunode62", "gpunode62"),
    Form("a100-63", "dgx-a100-63.lab.mycompany.tech"),
    Form("GPUNODE64", "GPUNODE64"),
    Form("gpunode[65", "gpunode[65-70]"),
    Form("worker-66", "worker-66.svc.cluster.local"),
    Form("unknown67", "host.with.unknown67.xyz"),
    Form("node_68", "node_68.mycompany.io:8080"),
    Form("bkt69", "s3://bkt69/key"),
    Form("bkt70", "arn:aws:s3:::bkt70/x"),
    Form("bkt71", "https://bkt71.s3.us-west-2.amazonaws.com/k"),
    Form("789072", "123456789072.dkr.ecr.us-west-2.amazonaws.com/img"),
    Form("7873", "i-0abcdef1234567873"),
    Form("cont74", "az://cont74@acct/x"),
    Form("bkt75", "minio://bkt75/x"),
    Form("cher76", "b\u00fccher76.example.com"),
    Form("login-node77", "on login-node77.mycompany.xyz"),
    Form("storage78", "connect to storage78.tech"),
    Form("u81secret", "/home/u81secret/x.py"),
    Form("u82secret", "/fsx/users/u82secret/x"),
    Form("u83secret", "~u83secret/x"),
    Form("u84secret", "C:\\Users\\u84secret\\x"),
    Form("u85secret", "\\\\srv85\\share\\u85secret"),
    Form("u86secret", "file:///home/u86secret/a"),
    Form("u87secret", "uid=1000(u87secret) gid=1000"),
    Form("u88secret", "u88secret@example.com"),
    Form("u89secret", "/mnt/nas/pr\u00f6jekt-u89secret/data"),
    Form("u90secret", "/gs/u90secret"),
    Form("u91secret", "$HOME/u91secret"),
    Form("u92secret", "/home/with space u92secret/x.py"),
    Form("u93secret", "/HOME/u93secret/x"),
    Form("u94secret", "LOGNAME=u94secret"),
    Form("alice95secret", "alice95secret"),
)

STAY = {
    "0a141e30": "a number in hexadecimal has no other form than an address has",
    "alice95secret": "a word of its own that the report gives nowhere as a user",
}
"""Parts that stay everywhere, with the reason. docs/reading.md lists them."""
STAY_IN_NAMES = {
    "unknown67": "a host's name has the form of a module's name, and nothing stands beside it",
}
"""Parts that stay in names of work, and go from command lines and facts about the machine."""
