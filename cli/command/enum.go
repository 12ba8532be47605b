package command

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"tensorstack.dev/jobs/cli/jobs"
)

// addEnum adds a flag that accepts only the choices and its default. The default is the text that *value has when
// addEnum is called. The shell completes the choices.
func addEnum(cmd *cobra.Command, value *string, name, shorthand, usage string, choices ...string) {
	cmd.Flags().VarP(&enum{value: value, unset: *value, choices: choices}, name, shorthand, usage)
	// This cannot fail: the flag exists and has no completions yet.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
}

// enum is the value of a flag that accepts only some values. It implements pflag.Value.
type enum struct {
	value   *string
	unset   string
	choices []string
}

// String returns the value of the flag.
func (e *enum) String() string { return *e.value }

// Type returns the type of the value for the help.
func (*enum) Type() string { return "string" }

// Set sets the value of the flag. If the value is neither the default nor one of the choices, Set returns an error
// that names the choices.
func (e *enum) Set(text string) error {
	if text != e.unset && !slices.Contains(e.choices, text) {
		return fmt.Errorf("use %s", jobs.Listed(e.choices, "or"))
	}
	*e.value = text
	return nil
}
