package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// addVerbosity adds the flag -v of kubectl to all commands.
func addVerbosity(root *cobra.Command) {
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	root.PersistentFlags().AddGoFlag(flags.Lookup("v"))
}

// silenceLibraries discards the log messages of client-go, since the commands print errors themselves. With -v,
// client-go logs its requests and errors to stderr.
func silenceLibraries() {
	if !klog.V(1).Enabled() {
		klog.SetLogger(logr.Discard())
	}
}

// explainErrors makes every command return its errors through explain.
func (e *environment) explainErrors(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		e.explainErrors(cmd)
		if run := cmd.RunE; run != nil {
			cmd.RunE = func(cmd *cobra.Command, args []string) error { return e.explain(run(cmd, args)) }
		}
	}
}

// explain returns an error whose message helps the user. If the cluster cannot be used, or if the user lacks a
// permission, the message describes the problem and its solution. If a signal has canceled the command, the exit code
// of the error is exitInterrupted. explain removes "<nil>" from messages of the API server that name no field. All
// other errors keep their messages.
func (e *environment) explain(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		if _, isExplained := errors.AsType[failure](err); !isExplained {
			err = errInterrupted
		}
		return err
	}
	for _, each := range flattened(err) {
		unreachable := e.unreachable(each)
		switch {
		case clientcmd.IsEmptyConfig(each) || e.isUnconfigured(each, unreachable):
			return fmt.Errorf("no cluster is configured, since there is no kubeconfig at %s: set --kubeconfig or $KUBECONFIG "+
				"to the file that you got for your cluster", e.kubeconfig())
		case e.hasUnknownContext() && strings.Contains(each.Error(), *e.flags.Context):
			return fmt.Errorf("%s has no context %q: kubectl config get-contexts lists the contexts",
				e.kubeconfig(), *e.flags.Context)
		case apierrors.IsUnauthorized(each):
			return fmt.Errorf("the server %s does not accept the credentials of %s: log in again, or ask an administrator "+
				"for another kubeconfig: %w", e.server(), e.context(), each)
		case unreachable != nil:
			text := fmt.Sprintf("cannot reach the server %s of %s: %v: check with kubectl cluster-info whether the cluster is "+
				"up and whether this is the right context", e.server(), e.context(), unreachable.Err)
			// Replace only the text about the connection. The rest of the message can list the steps that the command had
			// completed before the error, and the objects that it leaves in the cluster.
			return explained{message: strings.Replace(each.Error(), unreachable.Error(), text, 1), cause: err}
		}
	}
	return withoutNoField(withForbiddenExplained(err))
}

// noField matches the beginning of the API server's message about a violated validation rule, if the message names no
// field.
var noField = regexp.MustCompile(`<nil>: Invalid value: (null: |"object": )?`)

// withoutNoField returns the error without the matches of noField in its message.
func withoutNoField(err error) error {
	if message := noField.ReplaceAllString(err.Error(), ""); message != err.Error() {
		return explained{message: message, cause: err}
	}
	return err
}

// flattened returns the errors of an aggregate, or the error itself if it is no aggregate. Callers search these
// errors one by one, since errors.As does not search an aggregate.
func flattened(err error) []error {
	if aggregate, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		return utilerrors.Flatten(aggregate).Errors()
	}
	return []error{err}
}

// forbidden matches the message of the API server about a request that it forbids.
var forbidden = regexp.MustCompile(
	`User "([^"]*)" cannot (\S+) resource "([^"]*)" in API group "[^"]*"(?: in the namespace "([^"]*)")?`)

// denial is a request that the API server forbids. The namespace is empty for a request about the whole cluster.
type denial struct{ user, verb, namespace string }

// explain returns a message for the user about the denial of requests for the resources, and about the solution.
func (d denial) explain(resources ...string) string {
	where := "the cluster"
	if d.namespace != "" {
		where = "namespace " + d.namespace
	}
	return fmt.Sprintf("user %s may not %s %s in %s: ask an administrator for a Role with this right, such as the "+
		"ClusterRole edit", d.user, d.verb, strings.Join(resources, ", "), where)
}

// withForbiddenExplained returns one error that explains all forbidden requests in err and keeps the other messages.
// It returns err itself if no request is forbidden.
func withForbiddenExplained(err error) error {
	var denials []denial
	var messages []string
	isDenied := false
	resources := map[denial][]string{}
	for _, each := range flattened(err) {
		denied, _ := errors.AsType[*apierrors.StatusError](each)
		var parts []string
		if apierrors.IsForbidden(each) && denied != nil {
			parts = forbidden.FindStringSubmatch(denied.Error())
		}
		if parts == nil {
			messages = append(messages, each.Error())
			continue
		}
		isDenied = true
		d := denial{user: parts[1], verb: parts[2], namespace: parts[4]}
		if each.Error() != denied.Error() { // keep the text that the command has added
			messages = append(messages, strings.Replace(each.Error(), denied.Error(), d.explain(parts[3]), 1))
			continue
		}
		if resources[d] == nil {
			denials = append(denials, d)
		}
		resources[d] = append(resources[d], parts[3])
	}
	if !isDenied {
		return err
	}
	for _, d := range denials {
		messages = append(messages, d.explain(resources[d]...))
	}
	return explained{message: strings.Join(messages, "; "), cause: err}
}

// explained is an error whose message replaces the message of its cause.
type explained struct {
	message string
	cause   error
}

func (e explained) Error() string { return e.message }

func (e explained) Unwrap() error { return e.cause }

// isUnconfigured reports whether the command failed because no kubeconfig exists. In that case, requests go to the
// server localhost:8080, which usually does not exist.
func (e *environment) isUnconfigured(err error, unreachable *url.Error) bool {
	if missing, ok := errors.AsType[*fs.PathError](err); ok {
		return isSet(e.flags.KubeConfig) && missing.Path == *e.flags.KubeConfig
	}
	config, configErr := e.flags.ToRawKubeConfigLoader().RawConfig()
	isEmpty := configErr == nil && len(config.Clusters) == 0
	return isEmpty && !isSet(e.flags.APIServer) && unreachable != nil
}

// unreachable returns the error of a request that did not reach the API server, or nil.
func (e *environment) unreachable(err error) *url.Error {
	if failed, ok := errors.AsType[*url.Error](err); ok && strings.HasPrefix(failed.URL, e.server()) {
		return failed
	}
	return nil
}

// hasUnknownContext reports whether the flag --context names a context that does not exist.
func (e *environment) hasUnknownContext() bool {
	config, err := e.flags.ToRawKubeConfigLoader().RawConfig()
	return err == nil && isSet(e.flags.Context) && config.Contexts[*e.flags.Context] == nil
}

// isSet reports whether a flag of kubectl has a value.
func isSet(flag *string) bool { return flag != nil && *flag != "" }

// kubeconfig returns the paths of the kubeconfig, for messages.
func (e *environment) kubeconfig() string {
	access := e.flags.ToRawKubeConfigLoader().ConfigAccess()
	if access.IsExplicitFile() {
		return access.GetExplicitFile()
	}
	return strings.Join(access.GetLoadingPrecedence(), " or ")
}

// context returns a description of the user's context in the kubeconfig, for messages.
func (e *environment) context() string {
	config, err := e.flags.ToRawKubeConfigLoader().RawConfig()
	name := config.CurrentContext
	if isSet(e.flags.Context) {
		name = *e.flags.Context
	}
	if err != nil || name == "" {
		return "the kubeconfig " + e.kubeconfig()
	}
	return fmt.Sprintf("the context %q in %s", name, e.kubeconfig())
}

// server returns the address of the API server, for messages.
func (e *environment) server() string {
	config, err := e.flags.ToRESTConfig()
	if err != nil {
		return "of the cluster"
	}
	return config.Host
}
