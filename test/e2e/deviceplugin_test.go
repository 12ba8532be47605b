package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// devicePlugin is a device plugin of the local cluster's kubelet. Its devices do not exist. It runs in the process of
// the test.
type devicePlugin struct {
	deviceplugin.UnimplementedDevicePluginServer

	// resource is the name of the resource that the devices belong to. Each process of the tests has its own resource.
	resource string
	// socket is the name of the socket of the plugin in the folder of the kubelet.
	socket string
	server *grpc.Server

	mutex sync.Mutex
	// health maps the ID of each device to its health.
	health map[string]string
	// changed is closed when the health of a device changes.
	changed chan struct{}
	// stopped is closed when the plugin stops.
	stopped chan struct{}
}

// startDevicePlugin runs a device plugin until the end of the test. The IDs of its devices begin with the prefix.
func startDevicePlugin(ctx context.Context, prefix string, devices int) *devicePlugin {
	GinkgoHelper()
	p := &devicePlugin{
		resource: fmt.Sprintf("e2e.tensorstack.dev/device-%d", GinkgoParallelProcess()),
		socket:   prefix + ".sock",
		health:   map[string]string{},
		changed:  make(chan struct{}),
	}
	for i := range devices {
		p.health[fmt.Sprintf("%s-device-%d", prefix, i)] = deviceplugin.Healthy
	}
	DeferCleanup(p.stop)
	p.start(ctx)
	return p
}

// start serves the plugin and registers it with the kubelet.
func (p *devicePlugin) start(ctx context.Context) {
	GinkgoHelper()
	listener, err := net.Listen("unix", filepath.Join(deviceplugin.DevicePluginPath, p.socket))
	Expect(err).NotTo(HaveOccurred())
	p.server, p.stopped = grpc.NewServer(), make(chan struct{})
	deviceplugin.RegisterDevicePluginServer(p.server, p)
	go func(server *grpc.Server) { _ = server.Serve(listener) }(p.server) // Serve returns when the plugin stops
	kubelet, err := grpc.NewClient("unix://"+deviceplugin.KubeletSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	Expect(err).NotTo(HaveOccurred())
	defer kubelet.Close()
	_, err = deviceplugin.NewRegistrationClient(kubelet).Register(ctx, &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: p.socket, ResourceName: p.resource,
	}, grpc.WaitForReady(true))
	Expect(err).NotTo(HaveOccurred())
}

// stop stops the plugin if it runs, and deletes its socket, as if the pod of a device plugin were deleted.
func (p *devicePlugin) stop() {
	if p.server != nil {
		close(p.stopped)
		p.server.Stop()
		p.server = nil
	}
}

// setHealth sets the health of a device.
func (p *devicePlugin) setHealth(device, health string) {
	GinkgoHelper()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	Expect(p.health).To(HaveKey(device))
	p.health[device] = health
	close(p.changed)
	p.changed = make(chan struct{})
}

// devices returns the devices, and a channel that is closed when they change.
func (p *devicePlugin) devices() (*deviceplugin.ListAndWatchResponse, <-chan struct{}) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	list := &deviceplugin.ListAndWatchResponse{}
	for _, id := range slices.Sorted(maps.Keys(p.health)) {
		list.Devices = append(list.Devices, &deviceplugin.Device{ID: id, Health: p.health[id]})
	}
	return list, p.changed
}

// GetDevicePluginOptions implements deviceplugin.DevicePluginServer.
func (p *devicePlugin) GetDevicePluginOptions(
	context.Context, *deviceplugin.Empty,
) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

// ListAndWatch implements deviceplugin.DevicePluginServer.
func (p *devicePlugin) ListAndWatch(
	_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse],
) error {
	stopped := p.stopped
	for {
		list, changed := p.devices()
		if err := stream.Send(list); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stopped:
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// Allocate implements deviceplugin.DevicePluginServer. A container gets the IDs of its devices in the variable DEVICES.
func (p *devicePlugin) Allocate(
	_ context.Context, request *deviceplugin.AllocateRequest,
) (*deviceplugin.AllocateResponse, error) {
	response := &deviceplugin.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &deviceplugin.ContainerAllocateResponse{
			Envs: map[string]string{"DEVICES": fmt.Sprint(container.DevicesIds)},
		})
	}
	return response, nil
}
