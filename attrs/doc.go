// Package attrs attaches values to objects: attributes, as the Message Passing Interface caches them on communicators,
// datatypes and windows, and [Info], its ordered list of words.
//
// A [Space] holds the keys of a process for one kind of owner, and every owner has a [Cache]. A [Keyval] is a key: it
// knows the type of its attributes, how to copy one when its owner is duplicated, and what to do when one goes.
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
// Get takes no lock and does not allocate. All functions may be called by any goroutine.
//
// # Callbacks
//
// Callbacks run with no lock held and may call anything here, for the same owner and the same key too. While the delete
// callback of an attribute runs, the attribute is still there: Get finds it, and a callback that fails leaves it.
// Meanwhile
//
//   - Delete of that attribute takes it off at once, for good, and does not run the callback again;
//   - Set of that key replaces it at once, likewise. If the callback ran because of another Set, then that one comes
//     after: its value replaces the new one, whose callback runs.
//
// The same holds for other goroutines: nobody waits for a callback of somebody else.
//
// A callback that panics has failed with a [PanicError]. Callbacks that call each other without end fail with
// [ErrEndless] before the stack is exhausted.
//
// # How long a key lives
//
// A key that has been freed cannot be set any more. It can be read and deleted, and its callbacks run, until the last
// attribute with it is gone. Only then is its number given to another key.
package attrs
