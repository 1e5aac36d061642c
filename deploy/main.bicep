// What a job needs in Azure: an account, its queues with their poison queues, containers for logs, the roles of the
// identity that runs the job, and private endpoints if a subnet is given. See README.md.

@description('Name of the storage account: 3 to 24 lower-case letters and digits, unique in the world.')
@minLength(3)
@maxLength(24)
param accountName string

@description('Where the account is: the region of Spark.')
param location string = resourceGroup().location

@description('Copies of the data. Premium accounts have no queues.')
@allowed(['Standard_LRS', 'Standard_ZRS', 'Standard_GRS', 'Standard_GZRS'])
param sku string = 'Standard_ZRS'

@description('Queues of the job. Each gets a poison queue beside it.')
param queues string[] = ['orders']

@description('Containers for write-ahead logs, transaction logs and large bodies.')
param containers string[] = ['logs']

@description('Object id of the identity that runs the job. Empty: no role is assigned.')
param principalId string = ''

@description('What that identity is. A managed identity is a service principal.')
@allowed(['ServicePrincipal', 'User', 'Group'])
param principalType string = 'ServicePrincipal'

@description('Subnet of the private endpoints. Empty: the account answers at its public address.')
param subnetId string = ''

@description('Private DNS zone privatelink.queue.core.windows.net, with a subnet.')
param queueZoneId string = ''

@description('Private DNS zone privatelink.blob.core.windows.net, with a subnet.')
param blobZoneId string = ''

var poisonQueues = [for name in queues: '${name}-poison']
var allQueues = concat(queues, poisonQueues)

// Storage Queue Data Contributor, Storage Blob Data Contributor
var queueRole = '974c5e8b-45b9-4653-ba55-5f855dd0fb88'
var blobRole = 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'

var endpoints = [
  { service: 'queue', zone: queueZoneId }
  { service: 'blob', zone: blobZoneId }
]

resource account 'Microsoft.Storage/storageAccounts@2023-05-01' = {
  name: accountName
  location: location
  kind: 'StorageV2'
  sku: {
    name: sku
  }
  properties: {
    // Jobs use an identity: no key can leak, and no SAS outlives its purpose.
    allowSharedKeyAccess: false
    allowBlobPublicAccess: false
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    publicNetworkAccess: empty(subnetId) ? 'Enabled' : 'Disabled'
  }
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2023-05-01' = {
  parent: account
  name: 'default'
}

resource queue 'Microsoft.Storage/storageAccounts/queueServices/queues@2023-05-01' = [for name in allQueues: {
  parent: queueService
  name: name
}]

resource blobService 'Microsoft.Storage/storageAccounts/blobServices@2023-05-01' = {
  parent: account
  name: 'default'
}

// No lifecycle rule: a log whose objects are removed by others is lost.
resource container 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' = [for name in containers: {
  parent: blobService
  name: name
}]

// Of these queues and containers alone. A pattern in the option queue takes the role of the account.
resource ofQueue 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (name, index) in allQueues: if (!empty(principalId)) {
  name: guid(queue[index].id, principalId, queueRole)
  scope: queue[index]
  properties: {
    principalId: principalId
    principalType: principalType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', queueRole)
  }
}]

resource ofContainer 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (name, index) in containers: if (!empty(principalId)) {
  name: guid(container[index].id, principalId, blobRole)
  scope: container[index]
  properties: {
    principalId: principalId
    principalType: principalType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', blobRole)
  }
}]

resource endpoint 'Microsoft.Network/privateEndpoints@2023-11-01' = [for each in endpoints: if (!empty(subnetId)) {
  name: '${accountName}-${each.service}'
  location: location
  properties: {
    subnet: {
      id: subnetId
    }
    privateLinkServiceConnections: [
      {
        name: each.service
        properties: {
          privateLinkServiceId: account.id
          groupIds: [each.service]
        }
      }
    ]
  }
}]

resource zoneGroup 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2023-11-01' = [for (each, index) in endpoints: if (!empty(subnetId) && !empty(each.zone)) {
  parent: endpoint[index]
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      {
        name: each.service
        properties: {
          privateDnsZoneId: each.zone
        }
      }
    ]
  }
}]

@description('The option accountUrl of the job.')
output accountUrl string = account.properties.primaryEndpoints.queue
