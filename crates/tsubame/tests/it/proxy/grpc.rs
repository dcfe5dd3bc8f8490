//! gRPC through this server, with the client and the server of Debian's Python.

use std::process::Command;

use crate::harness::mpm::Mpm;
use crate::harness::needs;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::proxy::origin::PORT;
use crate::scripts::proxy_fcgi::Program;

const PYTHON: &str = "/usr/bin/python3";

/// Services without definitions: messages are bytes.
const SERVICE: &str = "\
import sys, threading
from concurrent import futures
import grpc

heard = threading.Event()
ended = []

def turned(message, context):
    context.set_trailing_metadata((('x-length', str(len(message))), ('x-raw-bin', b'\\0\\xff')))
    return message[::-1]

def hear(message, context):
    heard.set()
    return b''

def fails(message, context):
    context.abort(grpc.StatusCode.NOT_FOUND, 'not here: \\u00e4 %')

def waits(message, context):
    over, left = threading.Event(), context.time_remaining()
    context.add_callback(over.set)
    is_limited = left is not None and left < 100
    ended.append((message if over.wait(20) else b'late') + b' ' + str(is_limited).encode())
    return b''

def over(message, context):
    return b','.join(ended)

def two(message, context):
    heard.clear()
    yield b'one'
    yield b'two' if heard.wait(20) else b'late'

def many(message, context):
    for number in range(int(message)):
        yield b'%d' % number * 1000

def summed(messages, context):
    return str(sum(len(message) for message in messages)).encode()

def talk(messages, context):
    context.send_initial_metadata((('x-begun', 'yes'),))
    for message in messages:
        yield message.upper()

handlers = {
    'Turned': grpc.unary_unary_rpc_method_handler(turned), 'Hear': grpc.unary_unary_rpc_method_handler(hear),
    'Fails': grpc.unary_unary_rpc_method_handler(fails), 'Waits': grpc.unary_unary_rpc_method_handler(waits),
    'Over': grpc.unary_unary_rpc_method_handler(over), 'Two': grpc.unary_stream_rpc_method_handler(two),
    'Many': grpc.unary_stream_rpc_method_handler(many), 'Summed': grpc.stream_unary_rpc_method_handler(summed),
    'Talk': grpc.stream_stream_rpc_method_handler(talk),
}
server = grpc.server(futures.ThreadPoolExecutor(40))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler('t.T', handlers),))
server.add_insecure_port(sys.argv[1])
server.add_insecure_port('unix:' + sys.argv[2])
server.start()
server.wait_for_termination()
";

/// Says what it has seen, a line for each kind of call.
const CLIENT: &str = "\
import queue, sys, time
import grpc

channel = grpc.insecure_channel(sys.argv[1])
unary = lambda name: channel.unary_unary('/t.T/' + name)
LIMIT = 25

answer, call = unary('Turned').with_call(b'abc', timeout=LIMIT, metadata=(('x-a', 'b'),))
trailing = dict(call.trailing_metadata())
print('unary', answer, call.code().name, trailing['x-length'], trailing['x-raw-bin'])
big = b'ab' * 1000000
print('big', unary('Turned')(big, timeout=LIMIT) == big[::-1], unary('Turned')(b'', timeout=LIMIT))
try:
    unary('Fails')(b'', timeout=LIMIT)
except grpc.RpcError as error:
    print('error', error.code().name, ascii(error.details()))

# The second message comes only once the client has had the first one.
stream = channel.unary_stream('/t.T/Two')(b'', timeout=LIMIT)
first = next(stream)
unary('Hear')(b'', timeout=LIMIT)
print('streamed', first, list(stream), stream.code().name)
print('many', sum(len(message) for message in channel.unary_stream('/t.T/Many')(b'1000', timeout=LIMIT)))
print('summed', channel.stream_unary('/t.T/Summed')(iter([b'x' * 1000] * 500), timeout=LIMIT))

# Each message waits for the answer to the one before.
said = queue.Queue()
talk = channel.stream_stream('/t.T/Talk')(iter(said.get, None), timeout=LIMIT)
print('begun', dict(talk.initial_metadata())['x-begun'])
heard = []
for word in [b'a', b'b' * 100000, b'c']:
    said.put(word)
    heard.append(next(talk) == word.upper())
said.put(None)
print('talk', heard, list(talk), talk.code().name)

calls = [unary('Turned').future(b'%d' % number, timeout=LIMIT) for number in range(30)]
print('at once', calls[12].result(), len([call for call in calls if call.result()]))

try:
    unary('Waits')(b'deadline', timeout=0.2)
except grpc.RpcError as error:
    print('deadline', error.code().name)
waiting = unary('Waits').future(b'cancel')
while unary('Over')(b'', timeout=LIMIT) == b'':
    time.sleep(0.01)
waiting.cancel()
print('cancelled', waiting.cancelled())
while unary('Over')(b'', timeout=LIMIT).count(b',') < 1:
    time.sleep(0.01)
print('over', unary('Over')(b'', timeout=LIMIT))
";

const SAID: &str = "\
unary b'cba' OK 3 b'\\x00\\xff'
big True b''
error NOT_FOUND 'not here: \\xe4 %'
streamed b'one' [b'two'] OK
many 2890000
summed b'500000'
begun yes
talk [True, True, True] [] OK
at once b'21' 30
deadline DEADLINE_EXCEEDED
cancelled True
over b'deadline True,cancel False'
";

fn calls(mpm: Mpm) {
    if !needs::GRPC.is_there("calls") {
        return;
    }
    let site = Site::new();
    let socket = site.root.join("run/grpc.sock");
    let address = format!("{}:{PORT}", site.ip);
    let mut service = Command::new(PYTHON);
    let _service = Program::start(service.arg(site.file("service.py", SERVICE)).args([&address]).arg(&socket), &socket);
    let server = Server::start(mpm, &site, &format!("Protocols h2c http/1.1\nProxyPass /t.T/ h2c://{address}/t.T/\n"));
    let mut client = Command::new("/usr/bin/timeout");
    client.args(["60", PYTHON]).arg(site.file("client.py", CLIENT)).arg(server.address().to_string());
    let output = client.output().expect("Python");
    let [said, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!(said, SAID, "{mpm}: {errors}");
    assert!(output.status.success(), "{mpm}: {errors}");
}

crate::harness::mpm::under_percore_and! {
    event:

    /// Calls of every kind, their errors, deadlines and ends.
    fn calls_of_grpc(mpm: Mpm) {
        calls(mpm);
    }
}
