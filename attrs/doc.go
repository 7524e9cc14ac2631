// Package attrs attaches values to objects: attributes, as the Message Passing Interface caches them on
// communicators, datatypes and windows. It also contains [Info], MPI's ordered list of keys and values.
//
// A [Space] contains the keys of a process for one type of owner, and every owner has a [Cache]. A [Keyval] is a key.
// It defines the type of its attributes, how to copy an attribute when its owner is duplicated, and what to do when
// an attribute is deleted.
//
//	type Window struct {
//		attrs attrs.Cache[*Window]
//	}
//
//	var space attrs.Space[*Window]
//	w := &Window{}
//	w.attrs.Init(&space, w)
//
//	name := attrs.NewKeyval(&space, attrs.DupCopy[*Window, string], nil)
//	name.Set(&w.attrs, "main")
//	s, ok, err := name.Get(&w.attrs)
//
// Get takes no lock and does not allocate. Any goroutine may call any function.
//
// # Callbacks
//
// Callbacks run without a lock and may call any function of this package, also for the same owner and the same key.
// While the delete callback of an attribute runs, the attribute still exists: Get finds it, and it stays if the
// callback fails. Meanwhile
//
//   - Delete of that attribute removes it immediately and finally, and does not run the callback again;
//   - Set of that key replaces it immediately, and does not run the callback either.
//     If the callback runs because of another Set, that Set takes effect later: its value replaces the new one as it
//     would replace any other, so that the callback of the new one runs while that one still exists.
//
// The same holds for other goroutines: none waits for a callback in another goroutine.
//
// A callback that panics fails with a [PanicError]. Callbacks that call each other without end fail with [ErrEndless]
// before the stack is exhausted.
//
// # Lifetime of a key
//
// A key that has been freed cannot be set any more. It can be read and deleted, and its callbacks run, until the last
// attribute with it has been deleted. Only then can its number be given to another key.
package attrs
