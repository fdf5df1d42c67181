package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// connection is what a connection string says.
type connection struct {
	endpoint endpoint
	key      Secret // one of key and sas is set
	sas      Secret
}

// Names of a storage connection string's settings, in lower case, with their proper spelling.
func settingNames() map[string]string {
	m := make(map[string]string)
	for _, n := range []string{
		"DefaultEndpointsProtocol", "AccountName", "AccountKey", "SharedAccessSignature", "EndpointSuffix",
		"QueueEndpoint", "UseDevelopmentStorage", "DevelopmentStorageProxyUri",
	} {
		m[strings.ToLower(n)] = n
	}
	for _, service := range []string{"Blob", "Table", "File", "Dfs", "Web"} {
		m[strings.ToLower(service)+"endpoint"] = service + "Endpoint"
	}
	for _, service := range []string{"Blob", "Table", "File", "Queue", "Dfs", "Web"} {
		m[strings.ToLower(service)+"secondaryendpoint"] = service + "SecondaryEndpoint"
	}
	return m
}

// parseConnection reads a storage connection string. It takes what the SDKs and the portal write,
// and what people make of it: any case, spaces, empty parts, a SAS with or without "?". No error
// shows any of the values but hosts and account names.
func parseConnection(raw Secret, accountName string) (connection, error) {
	set, err := splitSettings(strings.TrimSpace(string(raw)))
	if err != nil {
		return connection{}, err
	}
	if _, ok := set["UseDevelopmentStorage"]; ok {
		return emulatorConnection(set)
	}
	if _, ok := set["DevelopmentStorageProxyUri"]; ok {
		return connection{}, errors.New("DevelopmentStorageProxyUri is for the emulator: it goes with UseDevelopmentStorage=true")
	}
	name := set["AccountName"]
	if accountName != "" && name != "" && accountName != name {
		return connection{}, fmt.Errorf("its AccountName contradicts accountName %q: make them agree, or remove accountName", accountName)
	}
	if name == "" {
		name = accountName
	}
	c := connection{key: Secret(set["AccountKey"]), sas: Secret(set["SharedAccessSignature"])}
	switch {
	case c.key == "" && c.sas == "":
		return connection{}, errors.New("it has neither AccountKey nor SharedAccessSignature: to sign in with an identity set endpoint and identity instead")
	case c.key != "" && c.sas != "":
		return connection{}, errors.New("it has both AccountKey and SharedAccessSignature: keep one")
	}
	c.endpoint, err = queueEndpoint(set, name)
	if err != nil {
		return connection{}, err
	}
	if c.key != "" && c.endpoint.account == "" {
		return connection{}, errors.New("it has an AccountKey but no AccountName, and its QueueEndpoint does not tell it: add AccountName")
	}
	return c, nil
}

// queueEndpoint takes QueueEndpoint, or builds it from protocol, name and suffix.
func queueEndpoint(set map[string]string, name string) (endpoint, error) {
	if q, ok := set["QueueEndpoint"]; ok {
		e, err := parseEndpoint(q, name)
		if err != nil {
			return endpoint{}, fmt.Errorf("QueueEndpoint: %w", err)
		}
		return e, nil
	}
	protocol := strings.ToLower(set["DefaultEndpointsProtocol"])
	suffix := strings.Trim(strings.ToLower(set["EndpointSuffix"]), ".")
	switch {
	case name == "" && hasOtherEndpoint(set):
		return endpoint{}, errors.New("it has endpoints of other services but no QueueEndpoint: copy the connection string again, with the queue service, or add QueueEndpoint")
	case name == "":
		return endpoint{}, errors.New("it has neither AccountName nor QueueEndpoint: the account is not known")
	case !plainAccount(name):
		return endpoint{}, errors.New("its AccountName is not a storage account name (3 to 24 lower-case letters and digits)")
	case protocol != "" && protocol != "http" && protocol != "https":
		return endpoint{}, errors.New("its DefaultEndpointsProtocol is neither https nor http")
	case suffix != "" && !plainHost(suffix):
		return endpoint{}, errors.New("its EndpointSuffix is not a host name, such as core.windows.net")
	}
	if protocol == "" {
		protocol = "https"
	}
	if suffix == "" {
		suffix = suffixPublic
	}
	e, err := parseEndpoint(protocol+"://"+name+".queue."+suffix, name)
	if err != nil {
		return endpoint{}, fmt.Errorf("AccountName and EndpointSuffix: %w", err)
	}
	return e, nil
}

func hasOtherEndpoint(set map[string]string) bool {
	for n := range set {
		if strings.HasSuffix(n, "Endpoint") {
			return true
		}
	}
	return false
}

func emulatorConnection(set map[string]string) (connection, error) {
	if strings.ToLower(set["UseDevelopmentStorage"]) != "true" {
		return connection{}, errors.New("its UseDevelopmentStorage is not true: remove it, or set it to true for the emulator")
	}
	host := "http://127.0.0.1"
	for n, v := range set {
		switch n {
		case "UseDevelopmentStorage":
		case "DevelopmentStorageProxyUri":
			host = strings.TrimRight(v, "/")
		default:
			return connection{}, fmt.Errorf("UseDevelopmentStorage=true stands alone, but %s is set too: remove one of them", n)
		}
	}
	e, err := parseEndpoint(host+":"+devPort+"/"+devAccount, devAccount)
	if err != nil {
		return connection{}, errors.New("its DevelopmentStorageProxyUri is not a scheme and a host without a port, such as http://host.docker.internal")
	}
	return connection{endpoint: e, key: devKey}, nil
}

// splitSettings reads "name=value;name=value" into settings by their proper names.
func splitSettings(raw string) (map[string]string, error) {
	if err := notAConnectionString(raw); err != nil {
		return nil, err
	}
	names := settingNames()
	set := make(map[string]string)
	for i, part := range strings.Split(raw, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		value = strings.TrimSpace(value)
		proper := names[strings.ToLower(strings.TrimSpace(name))]
		_, twice := set[proper]
		switch {
		case !ok:
			return nil, fmt.Errorf("its part %d has no =: settings are written name=value and separated by semicolons", i+1)
		case proper == "":
			return nil, fmt.Errorf("its part %d is not a setting of a storage connection string: is it cut off, or another service's?", i+1)
		case twice:
			return nil, fmt.Errorf("it has %s twice", proper)
		case value == "":
			return nil, fmt.Errorf("its %s is empty", proper)
		}
		set[proper] = value
	}
	return set, nil
}

// notAConnectionString recognises other things that people put where a connection string belongs.
func notAConnectionString(raw string) error {
	lower := asciiLower(raw)
	first, _, _ := strings.Cut(lower, "=")
	switch {
	case strings.Trim(raw, "; ") == "":
		return errors.New("it is empty")
	case slices.Contains([]byte(`"'`), raw[0]):
		return errors.New("it is in quotation marks: remove them")
	case strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://"):
		if _, query, _ := strings.Cut(raw, "?"); hasSignature(query) {
			return errors.New("it is a SAS URL, not a connection string: put it in sas (or sasFile)")
		}
		return errors.New("it is an endpoint, not a connection string: put it in endpoint, with accountKey, sas or identity")
	case strings.HasPrefix(lower, "sharedaccesssignature="):
		return nil
	case strings.HasPrefix(lower, "?") || hasSignature(raw) && !strings.Contains(raw, ";"):
		return errors.New("it is a SAS, not a connection string: put it in sas (or sasFile), with endpoint")
	case strings.Contains(lower, "endpoint=sb://"):
		return errors.New("it is a Service Bus or Event Hubs connection string: qwatch reads Azure Storage queues")
	case !strings.Contains(raw, "=") || strings.TrimSpace(first) == "":
		return errors.New("it is not a connection string: settings are written name=value and separated by semicolons")
	}
	return nil
}
