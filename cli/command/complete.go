package command

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
)

// completionTimeout is how long a shell waits for a completion.
const completionTimeout = 3 * time.Second

// completeJobs completes the argument JOB of a command. It is the only argument of most commands, so nothing is
// completed after it. The shell shows the kind and the phase of each job.
func (e *environment) completeJobs(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var completions []cobra.Completion
	e.quickly(cmd.Context(), func(ctx context.Context, c *cluster) {
		found, _ := jobs.List(ctx, c, jobs.Kinds, client.InNamespace(c.namespace)) // what could be read
		completions = completionsOf(found, typed)
	})
	return completions, cobra.ShellCompDirectiveNoFileComp
}

// completionsOf returns the jobs that begin with what is typed. A job has its kind in front if it is typed, or if
// another job has the same name.
func completionsOf(found []jobs.Job, typed string) []cobra.Completion {
	count := map[string]int{}
	for _, job := range found {
		count[job.GetName()]++
	}
	kind := ""
	if prefix, _, ok := strings.Cut(typed, "/"); ok {
		kind = prefix
	}
	var completions []cobra.Completion
	for _, job := range found {
		name := job.GetName()
		switch {
		case kind != "":
			name = kind + "/" + name
			if jobs.KindNamed(kind) != job.Kind {
				continue
			}
		case count[name] > 1:
			name = job.Ref()
		}
		if strings.HasPrefix(name, typed) {
			description := strings.TrimSpace(job.Kind.Kind + " " + string(job.JobStatus().Phase))
			completions = append(completions, cobra.CompletionWithDesc(name, description))
		}
	}
	return completions
}

// completeNamespaces completes the flag --namespace.
func (e *environment) completeNamespaces(
	cmd *cobra.Command, _ []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	var completions []cobra.Completion
	e.quickly(cmd.Context(), func(ctx context.Context, c *cluster) {
		var namespaces corev1.NamespaceList
		if c.List(ctx, &namespaces) != nil {
			return // the shell completes nothing
		}
		for i := range namespaces.Items {
			if name := namespaces.Items[i].Name; strings.HasPrefix(name, typed) {
				completions = append(completions, name)
			}
		}
	})
	return completions, cobra.ShellCompDirectiveNoFileComp
}

// completeContexts completes the flag --context.
func (e *environment) completeContexts(
	_ *cobra.Command, _ []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := e.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var completions []cobra.Completion
	for name := range config.Contexts {
		if strings.HasPrefix(name, typed) {
			completions = append(completions, name)
		}
	}
	return completions, cobra.ShellCompDirectiveNoFileComp
}

// quickly calls act with the cluster. Its requests end soon if the cluster does not respond.
func (e *environment) quickly(ctx context.Context, act func(context.Context, *cluster)) {
	timeout := completionTimeout.String()
	e.flags.Timeout = &timeout
	c, err := e.connect()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	act(ctx, c)
}

// addCompletions adds the completions of the flags that all commands share.
func (e *environment) addCompletions(root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("namespace", e.completeNamespaces) // cannot fail: the flag exists
	_ = root.RegisterFlagCompletionFunc("context", e.completeContexts)
}
