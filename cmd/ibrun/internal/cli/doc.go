// Package cli parses ibrun's command line: the flags, and the syntax of sizes and ranges.
//
//	opts, err := cli.Parse([]string{"-n", "4", "./prog", "-v"}, os.LookupEnv)
//	fmt.Println(opts.Programs[0].Ranks, opts.Programs[0].Args) // 4 [./prog -v]
//
// Flags have one or two dashes and end at the first word without a dash, so the program's own flags stay its own.
// Every flag has an environment form, IBRUN_ and its name. A flag on the command line overrides its environment form.
// Programs are separated by ":".
package cli
