package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tensorstack.dev/jobs/cli/jobs"
)

// oneJob requires the argument JOB, and allows no others.
func oneJob(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name a job, as in: %s digits. kubectl train list shows the jobs", cmd.CommandPath())
	}
	return atMostOneJob(cmd, args)
}

// atMostOneJob allows the optional argument JOB, and no others.
func atMostOneJob(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) < 2:
		return nil
	case len(args) == 2 && jobs.KindNamed(args[0]) != nil:
		return fmt.Errorf("join the kind and the name of the job: %s/%s", args[0], args[1])
	}
	return fmt.Errorf("%s takes one job, and not %d", cmd.CommandPath(), len(args))
}

// oneJobBefore returns a check that requires the argument JOB and allows arguments after --. The parameter rest
// describes the arguments after -- in the error.
func oneJobBefore(rest string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if dash := cmd.ArgsLenAtDash(); dash >= 0 {
			args = args[:dash]
		}
		err := oneJob(cmd, args)
		if len(args) > 1 {
			err = fmt.Errorf("%w: %s", err, rest)
		}
		return err
	}
}

// jobAndReplicas requires the arguments JOB and REPLICAS.
func jobAndReplicas(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("name a job and its number of replicas, as in: %s digits 4", cmd.CommandPath())
	}
	return nil
}

// explainNegative replaces the error about an unknown flag if the flag is a negative number of replicas, such as -1.
func explainNegative(_ *cobra.Command, err error) error {
	unknown, _ := errors.AsType[*pflag.NotExistError](err)
	if unknown == nil || strings.Trim(unknown.GetSpecifiedShortnames(), "0123456789") != "" {
		return err
	}
	return fmt.Errorf(`"-%s" is no number of replicas`, unknown.GetSpecifiedShortnames())
}

// addExclusive makes a command accept at most one of some flags.
func addExclusive(cmd *cobra.Command, flags ...string) {
	cmd.MarkFlagsMutuallyExclusive(flags...) // this also makes the shell complete only one of the flags
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		var set []string
		for _, flag := range flags {
			if cmd.Flags().Changed(flag) {
				set = append(set, "--"+flag)
			}
		}
		if len(set) > 1 {
			return fmt.Errorf("use only one of %s", strings.Join(set, " and "))
		}
		return check(cmd, args)
	}
}

// manifestsOf returns the check for a command that reads manifests: it requires the flag -f and allows no arguments.
func manifestsOf(files *[]string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return fmt.Errorf("the flag -f names the manifests: -f %s", args[0])
		case len(*files) == 0:
			return errors.New(cmd.Name() + " needs a manifest: add -f FILE, or -f - for stdin")
		}
		return nil
	}
}
