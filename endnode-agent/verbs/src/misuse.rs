//! What must not compile. Each program that does not is beside one that does and differs in nothing but the
//! misuse, so that it fails for that reason.

/// Sending before it is connected.
///
/// ```no_run
/// use snin_verbs::{Gather, QueuePair, Rc, Sending, Signal};
/// fn right(mut pair: QueuePair<Rc, Sending>, what: Gather<'_>) {
///     let _ = pair.send(what, None, 0, Signal::Yes);
/// }
/// ```
///
/// ```compile_fail,E0599
/// use snin_verbs::{Gather, QueuePair, Rc, Initialised, Signal};
/// fn wrong(mut pair: QueuePair<Rc, Initialised>, what: Gather<'_>) {
///     let _ = pair.send(what, None, 0, Signal::Yes);
/// }
/// ```
///
/// Receiving before it is initialised.
///
/// ```no_run
/// use snin_verbs::{Initialised, QueuePair, Rc, Slot};
/// fn right(mut pair: QueuePair<Rc, Initialised>, slot: Slot) {
///     let _ = pair.receive(slot, 0);
/// }
/// ```
///
/// ```compile_fail,E0599
/// use snin_verbs::{QueuePair, Rc, Reset, Slot};
/// fn wrong(mut pair: QueuePair<Rc, Reset>, slot: Slot) {
///     let _ = pair.receive(slot, 0);
/// }
/// ```
///
/// Connecting twice.
///
/// ```no_run
/// use snin_verbs::{Initialised, Mtu, Path, QueuePair, Rc, Remote, Timing};
/// fn right(pair: QueuePair<Rc, Initialised>, path: &Path, remote: Remote) {
///     let _first = pair.connect(path, remote, Mtu::B1024, &Timing::default());
/// }
/// ```
///
/// ```compile_fail,E0382
/// use snin_verbs::{Initialised, Mtu, Path, QueuePair, Rc, Remote, Timing};
/// fn wrong(pair: QueuePair<Rc, Initialised>, path: &Path, remote: Remote) {
///     let _first = pair.connect(path, remote, Mtu::B1024, &Timing::default());
///     let _second = pair.connect(path, remote, Mtu::B1024, &Timing::default());
/// }
/// ```
///
/// Connecting what carries datagrams.
///
/// ```compile_fail,E0599
/// use snin_verbs::{Initialised, Mtu, Path, QueuePair, Remote, Timing, Ud};
/// fn wrong(pair: QueuePair<Ud, Initialised>, path: &Path, remote: Remote) {
///     let _first = pair.connect(path, remote, Mtu::B1024, &Timing::default());
/// }
/// ```
pub struct States;

/// Touching memory that is posted.
///
/// ```no_run
/// use snin_verbs::{QueuePair, Rc, Sending, Slot};
/// fn right(pair: &mut QueuePair<Rc, Sending>, mut slot: Slot) {
///     slot.bytes_mut()[0] = 1;
///     let _ = pair.receive(slot, 0);
/// }
/// ```
///
/// ```compile_fail,E0382
/// use snin_verbs::{QueuePair, Rc, Sending, Slot};
/// fn wrong(pair: &mut QueuePair<Rc, Sending>, mut slot: Slot) {
///     let _ = pair.receive(slot, 0);
///     slot.bytes_mut()[0] = 1;
/// }
/// ```
///
/// Changing memory that may be on its way out.
///
/// ```no_run
/// use snin_verbs::Source;
/// fn right(slot: &mut Source) {
///     if let Some(bytes) = slot.bytes_mut() {
///         bytes[0] = 1;
///     }
/// }
/// ```
///
/// ```compile_fail,E0608
/// use snin_verbs::Source;
/// fn wrong(slot: &mut Source) {
///     slot.bytes_mut()[0] = 1;
/// }
/// ```
///
/// Having a reference into memory that peers write.
///
/// ```no_run
/// use snin_verbs::Slot;
/// fn right(slot: &Slot) -> &[u8] {
///     slot.bytes()
/// }
/// ```
///
/// ```compile_fail,E0599
/// use snin_verbs::Shared;
/// fn wrong(shared: &Shared) -> &[u8] {
///     shared.bytes()
/// }
/// ```
///
/// Finishing a receive twice with one completion.
///
/// ```no_run
/// use snin_verbs::{Completion, SharedReceives};
/// fn right(receives: &mut SharedReceives<()>, completion: Completion) {
///     let _buffer = receives.finish(completion);
/// }
/// ```
///
/// ```compile_fail,E0382
/// use snin_verbs::{Completion, SharedReceives};
/// fn wrong(receives: &mut SharedReceives<()>, completion: Completion) {
///     let _buffer = receives.finish(completion);
///     let _again = receives.finish(completion);
/// }
/// ```
///
/// Looking at a completion after the next poll.
///
/// ```no_run
/// use snin_verbs::{Batch, CompletionQueue};
/// fn right(queue: &CompletionQueue, batch: &mut Batch) {
///     let _ = queue.poll(batch);
///     let _kept = batch.completions().first();
/// }
/// ```
///
/// ```compile_fail,E0502
/// use snin_verbs::{Batch, CompletionQueue};
/// fn wrong(queue: &CompletionQueue, batch: &mut Batch) {
///     let kept = batch.completions().first();
///     let _ = queue.poll(batch);
///     let _late = kept.map(|completion| completion.queue_pair());
/// }
/// ```
pub struct Memory;

/// Sending datagrams on a connection.
///
/// ```no_run
/// use snin_verbs::{AddressHandle, Gather, QueuePair, Sending, Signal, Ud};
/// fn right(pair: &mut QueuePair<Ud, Sending>, what: Gather<'_>, to: &AddressHandle) {
///     let _ = pair.send_to(what, to, (1, 1), 0, Signal::Yes);
/// }
/// ```
///
/// ```compile_fail,E0599
/// use snin_verbs::{AddressHandle, Gather, QueuePair, Rc, Sending, Signal};
/// fn wrong(pair: &mut QueuePair<Rc, Sending>, what: Gather<'_>, to: &AddressHandle) {
///     let _ = pair.send_to(what, to, (1, 1), 0, Signal::Yes);
/// }
/// ```
///
/// Reading without reliability.
///
/// ```no_run
/// use snin_verbs::{QueuePair, Rc, RemoteMemory, Sending, Slot};
/// fn right(pair: &mut QueuePair<Rc, Sending>, slot: Slot, from: RemoteMemory) {
///     let _ = pair.read(slot, 1, (from, 0), 0);
/// }
/// ```
///
/// ```compile_fail,E0599
/// use snin_verbs::{QueuePair, RemoteMemory, Sending, Slot, Uc};
/// fn wrong(pair: &mut QueuePair<Uc, Sending>, slot: Slot, from: RemoteMemory) {
///     let _ = pair.read(slot, 1, (from, 0), 0);
/// }
/// ```
///
/// Retrying for ever.
///
/// ```no_run
/// let _ = snin_verbs::Retries::new(6);
/// ```
///
/// ```compile_fail,E0423
/// let _ = snin_verbs::Retries(7);
/// ```
pub struct Transports;
