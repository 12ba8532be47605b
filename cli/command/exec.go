package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// exec runs a command in a container, as kubectl exec does. If tty is nil, the command has no terminal. If the exit
// code of the command is not 0, the error is an ExitError of k8s.io/client-go/util/exec.
func (c *cluster) exec(
	ctx context.Context, pod client.ObjectKey, container string, command []string, streams remotecommand.StreamOptions,
	tty *terminal,
) error {
	request := c.core.RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: command, Stdin: streams.Stdin != nil, Stdout: streams.Stdout != nil,
			Stderr: streams.Stderr != nil, TTY: streams.Tty,
		}, scheme.ParameterCodec)
	executor, err := executorFor(c.config, request)
	if err != nil {
		return err
	}
	if tty == nil {
		err = executor.StreamWithContext(ctx, streams)
	} else {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		streams.TerminalSizeQueue = tty.sizes(ctx)
		err = tty.raw(func() error { return executor.StreamWithContext(ctx, streams) })
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the connection to %s was lost", pod.Name)
	}
	return err
}

// executorFor returns an executor that uses WebSockets, or SPDY if the cluster or a proxy does not support
// WebSockets.
func executorFor(config *rest.Config, request *rest.Request) (remotecommand.Executor, error) {
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", request.URL())
	if err != nil {
		return nil, err
	}
	webSocket, err := remotecommand.NewWebSocketExecutor(config, "GET", request.URL().String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(webSocket, spdy, needsFallback)
}

// needsFallback reports whether a connection failed because WebSockets are not supported.
func needsFallback(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
}
