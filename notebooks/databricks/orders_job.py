# Databricks notebook source
# MAGIC %md
# MAGIC # Orders, from the queue into a table
# MAGIC
# MAGIC Reads what is in the queue, appends it to a table, deletes it from the queue, and ends. Run it as a job on a
# MAGIC schedule: `databricks.yml` beside this notebook has one.
# MAGIC
# MAGIC It needs Runtime 17.3 LTS or newer (Spark 4.0), a volume, and the package as a library of the cluster: the bundle builds and
# MAGIC installs it. By hand: `%pip install <path of the wheel>` in a cell above this one.

# COMMAND ----------

# The job sets these; in a notebook they are fields above.
dbutils.widgets.text("account", "https://shopqueues.queue.core.windows.net", "Queue endpoint")
dbutils.widgets.text("queue", "orders", "Queue")
dbutils.widgets.text("table", "main.shop.orders", "Table")
dbutils.widgets.text("volume", "/Volumes/main/shop/queues", "Folder for the checkpoint")
dbutils.widgets.text("log", "", "Write-ahead log, such as blob:logs/orders (empty: none)")
dbutils.widgets.text("credential", "", "Service credential (empty: the secret scope)")
dbutils.widgets.text("scope", "shop", "Secret scope")

account = dbutils.widgets.get("account")
queue = dbutils.widgets.get("queue")
table = dbutils.widgets.get("table")
volume = dbutils.widgets.get("volume")
log = dbutils.widgets.get("log")
credential = dbutils.widgets.get("credential")
scope = dbutils.widgets.get("scope")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The account
# MAGIC
# MAGIC The secret `queues` of the scope holds a connection string. With a service credential no secret is involved; whether
# MAGIC the processes of a source in Python are given one, nobody has tried.

# COMMAND ----------

if credential:
    azure = {"accountUrl": account, "credential": "databricks", "serviceCredential": credential}
else:
    azure = {"secret.connectionString": dbutils.secrets.get(scope=scope, key="queues")}

# COMMAND ----------

# MAGIC %md
# MAGIC ## The stream
# MAGIC
# MAGIC Messages that make their batch fail again and again are dead-lettered; `drain` below starts the stream again
# MAGIC after a failure, which is what finding them takes. The body is kept: what is no such JSON has NULLs beside it.

# COMMAND ----------

import spark_azqueue

# Needed if the package came into a running session. Spark 4.0 refuses it if Spark has found the format itself.
try:
    spark.dataSource.register(spark_azqueue.AzQueueDataSource)
except Exception as error:
    if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
        raise

messages = spark.readStream.format("azqueue").options(**azure).option("queue", queue)
if log:
    messages = messages.option("writeAheadLog", log)
orders = messages.load().selectExpr(
    "message_id",
    "insertion_time",
    "body",
    "from_json(body, 'order_id BIGINT, quantity BIGINT') AS o",
)
orders = orders.select("message_id", "insertion_time", "body", "o.*")

# COMMAND ----------


# The stream is started again after a failure, and on Runtime 17 and 18 once for each batch, until
# all is read and deleted.
def start():
    return (
        orders.writeStream.queryName(f"read-{queue}")
        .option("checkpointLocation", f"{volume}/{queue}/checkpoint")
        .trigger(availableNow=True)
        .toTable(table)
    )


result = spark_azqueue.drain(start, azure | {"queue": queue})
if not result.finished:
    raise RuntimeError(str(result.explanation or result.reason or result)) from result.error

# COMMAND ----------

print(f"{result.read} messages; {table} has {spark.table(table).count()} rows")
dbutils.notebook.exit(str(result.read))
