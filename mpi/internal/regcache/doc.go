// Package regcache caches memory registrations. A device can only access memory that is registered with it, which pins the
// memory. Registering takes longer than sending some 16 KiB, so a buffer that is sent again should not be registered again.
//
//	c := regcache.New(domain, regcache.DefaultLimit)
//	m, err := c.Acquire(buf) // registers buf, or finds it registered
//	...                      // m.Remote and m.Local are valid until
//	c.Release(m)             // after that the registration may be evicted; usually it is not
//
// An allocator that returns memory to the system makes such a cache dangerous: the same addresses are used again, and the device
// still writes to the old pages. Other implementations solve this by intercepting the allocator. Here the memory belongs to the
// garbage collector, which does not move it and reports when it is freed:
//
//   - A registration covers b, and at first as many bytes behind it within its capacity as b has, at most 2 MiB. If a buffer is
//     used with growing lengths or part by part, the bytes beyond those that are used may grow with them, see extentFor.
//   - It is found by address, and is valid only while a weak pointer to the memory still has a value: an object that is allocated
//     later at the same address has another weak pointer.
//   - When the collector frees the memory, a cleanup adds the registration to a list of those to be deregistered.
//   - Memory that the runtime does not own (mapped memory, or C's) is registered for one use and deregistered by Release. A
//     caller that knows how long such memory lives can register it with [Cache.Register]. Package variables live for ever.
//
// Registrations that are not in use are evicted, least recently used first, when their bytes exceed a bound or when the system
// has no room for more. Those in use count against the bound and are never evicted.
package regcache
