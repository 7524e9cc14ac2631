// Package manual describes the commands of ibrun. One [Page] is the source of the help of a command, of what shells complete
// after its name, and of its manual page:
//
//	page := manual.Page{Name: "secret", Summary: "make a secret file", Forms: []string{"secret FILE"}}
//	fmt.Print(page.Help())                      // ibrun help secret
//	fmt.Print(page.Roff(source, pages))        // ibrun man secret
//
// Flags of commands are described where they are parsed: [Flags] reads them from a flag set.
package manual
