// Package cli is ibrun's command line: which flags there are, what they mean, and how sizes and ranges are written.
//
//	opts, err := cli.Parse([]string{"-n", "4", "./prog", "-v"}, os.Getenv)
//	fmt.Println(opts.Programs[0].Ranks, opts.Programs[0].Args) // 4 [./prog -v]
//
// Flags take one or two dashes and end at the first word that is none, so the program's own flags stay its own.
// Every flag has an environment form, IBRUN_ and its name, which counts only where the flag is not on the command line.
// Programs are separated by ":".
package cli
