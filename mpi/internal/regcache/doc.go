// Package regcache remembers registrations: memory that a device may read and write is pinned and known to it, which takes
// longer than sending some 16 KiB, so a buffer that is sent again should not be registered again.
//
//	c := pin.New(domain, 1<<30)
//	m, err := c.Hold(buf) // registered, or found
//	...                   // m.Remote and m.Local name buf until
//	c.Release(m)          // it may be forgotten; usually it is not
//
// An allocator that gives memory back to the system makes such a memory dangerous: the same addresses come again, and the
// device still writes to the old pages. Elsewhere this is met by intercepting the allocator. Here the memory belongs to the
// garbage collector, which does not move it and tells when it is gone:
//
//   - A registration covers b[:cap(b)], unless that is beyond the bound. It is found by address, and counts only while a weak
//     pointer to the memory still has a value: an object that was allocated later at the same address has another.
//   - When the collector frees the memory, a cleanup puts the registration on a list of those to be undone.
//   - Memory that the runtime does not own (mapped, or C's) is registered for one use and undone by Release, or for good by
//     [Cache.Keep], by someone who knows how long it lives. Package variables live for ever.
//
// Registrations that nobody holds are undone, least recently used first, when their bytes exceed a bound or when the system
// has no room for more. What is held counts against the bound and is never undone.
package regcache
